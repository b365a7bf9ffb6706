"""The command line: demo, solvers, relaxations, solve, compare, explain."""
