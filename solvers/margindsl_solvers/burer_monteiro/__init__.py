"""Burer-Monteiro engines: low-rank factors instead of semidefinite matrices."""

from margindsl_solvers.burer_monteiro.solver import BurerMonteiro

__all__ = ["BurerMonteiro"]
