"""The native engine of the minimax master problem."""

from margindsl_solvers.mirror_prox.solver import MirrorProx, MirrorProxSession

__all__ = ["MirrorProx", "MirrorProxSession"]
