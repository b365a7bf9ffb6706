"""A proof of many points takes memory in proportion to them."""

import tracemalloc

import numpy as np

import margindsl as md


def test_no_matrix_of_all_pairs_of_points_is_held():
    n = 20_000
    rng = np.random.default_rng(0)
    y, f = md.Labels(n), md.Hyperplane(rng.normal(size=(n, 2)) + rng.choice([-2, 2], n)[:, None], bias="penalised")
    problem = md.Problem(md.Minimize(md.sq_norm(f) + md.mean(md.squared_hinge(y * f))), [abs(md.sum(y)) <= 9999])
    tracemalloc.start()
    try:
        solution = problem.solve(md.WeightLifting(polish="none", rounding=2), random_state=0)
        assert solution.bound > 0 and tracemalloc.get_traced_memory()[1] < n * n / 4
    finally:
        tracemalloc.stop()
