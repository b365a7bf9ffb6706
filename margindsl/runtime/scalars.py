"""The shared scalars of a solution, by what declared them and by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from margindsl.language.symbols import Scalar


class Scalars(Mapping[Any, float]):
    """Map shared scalars to their values: ``solution.scalars[s]`` and ``solution.scalars["s"]``.

    Iterating gives the names, all different: the second scalar called ``s`` is ``s_2``, as `print(problem)` shows it.

    Parameters
    ----------
    symbols : sequence of Scalar
        What declared them, in the order of the names; none of a loaded solution.
    """

    def __init__(self, values: Mapping[str, float], symbols: Iterable[Scalar] = ()) -> None:
        self._values = {name: float(value) for name, value in values.items()}
        self._symbols = tuple(symbols)

    def __getitem__(self, key: Any) -> float:
        if not isinstance(key, Scalar):
            return self._values[key]
        for symbol, value in zip(self._symbols, self._values.values()):
            if symbol is key:
                return value
        raise KeyError(f"{key.text()!r} is no scalar of the problem that was solved, or the solution was loaded "
                       f"without it; by name there are {', '.join(self._values) or 'none'}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return any(key is symbol for symbol in self._symbols) if isinstance(key, Scalar) else key in self._values

    def __repr__(self) -> str:
        return repr(self._values)
