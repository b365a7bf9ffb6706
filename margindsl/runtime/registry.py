"""Solvers and relaxations by name, found through entry points; nothing is imported before it is asked for."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from margindsl.contract import Refusal, Solver
from margindsl.drivers.guard import offer_of
from margindsl.errors import DeclarationError, NotInstalledError, UnknownNameError
from margindsl.host.extensions import RELAXATIONS, SOLVERS, registered
from margindsl.program.forms import Form
from margindsl.relaxations.relaxation import Relaxation
from margindsl.typing import RelaxationName, SolverName
from margindsl.views.notebook import Listing

RelaxationChoice: TypeAlias = RelaxationName | Relaxation | None
SolverChoice: TypeAlias = SolverName | Solver | None


@dataclass(frozen=True)
class SolverInfo:
    """Represent one line of the list of solvers."""

    name: str
    kind: str
    version: str
    installed: bool
    accepts: str


def entry_points(group: str, name: str = "") -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return the entry points of a group by lower-case name."""
    found = registered(group, name)
    if not found:
        raise NotInstalledError(
            f"no entry points of group {group!r} are installed; run `pip install -e .` in the checkout, because "
            "solvers and relaxations are found through entry points")
    return found


def load_class(group: str, kind: str, name: Any) -> Any:
    """Return the class registered under a name, whatever its case."""
    points = entry_points(group, name if isinstance(name, str) else "")
    if not isinstance(name, str) or name.lower() not in points:
        other, what = (SOLVERS, "solver") if group == RELAXATIONS else (RELAXATIONS, "relaxation")
        exchanged = isinstance(name, str) and name.lower() in entry_points(other)
        raise UnknownNameError(kind, name, points, f"{name!r} is a {what}: give {what}={name!r}." if exchanged else "")
    return _loaded(kind, points[name.lower()])


def _loaded(kind: str, point: Any) -> Any:
    try:
        found = point.load()
    except (AttributeError, ImportError) as error:
        raise NotInstalledError(f"{kind} {point.name!r}: {point.value} does not exist ({error}); upgrade or remove the "
                                "package that registers it") from error
    if not isinstance(found, type):
        raise NotInstalledError(f"{kind} {point.name!r}: {point.value} is no class, but {found!r}; upgrade or remove "
                                "the package that registers it")
    return found


def make_solver(name: str, **options: Any) -> Solver:
    """Return a solver by name with its own options: ``md.Solver("mirror-prox", tol=1e-5)``, ``Solver("cvxpy:PIQP")``.

    Raises
    ------
    UnknownNameError
        If the name or an option is unknown.
    NotInstalledError
        If the package behind it is not installed.
    """
    family, _, engine = name.partition(":") if isinstance(name, str) else (name, "", "")
    cls = load_class(SOLVERS, "solver", family if not engine or family.lower() == "cvxpy" else name)
    cls.require_installed()
    options |= {"engine": engine} if engine else {}
    built: Solver = cls(**options)
    return built


def solvers_for(form: Form, preferred: Iterable[str] | None = None) -> Iterator[Solver]:
    """Yield the installed solvers that accept a form; none is imported before it is asked for.

    Parameters
    ----------
    preferred : iterable of str, optional
        Names in the order to ask them; default: all that are registered, by name.
    """
    for name in sorted(entry_points(SOLVERS)) if preferred is None else preferred:
        try:
            solver = make_solver(name)
        except ImportError:
            continue
        if not isinstance(offer_of(solver, form), Refusal):
            yield solver


def as_solver(solver: Any) -> Solver:
    """Return a solver from a name or an instance."""
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, str):
        return make_solver(solver)
    raise DeclarationError(f"solver={solver!r}: expected a name or md.Solver(name, option=...)")


def as_relaxation(relaxation: Any) -> Relaxation:
    """Return a relaxation from a name or an instance."""
    if isinstance(relaxation, Relaxation):
        return relaxation
    if isinstance(relaxation, str):
        built: Relaxation = load_class(RELAXATIONS, "relaxation", relaxation)()
        return built
    raise DeclarationError(f"relaxation={relaxation!r}: expected a name or an object such as md.SDP()")


def relaxation_names() -> tuple[str, ...]:
    """Return the names of all relaxations."""
    return tuple(sorted(entry_points(RELAXATIONS)))


def relaxation_classes() -> Iterator[type[Relaxation]]:
    """Yield the relaxations whose packages can be imported, by name."""
    for _, point in sorted(entry_points(RELAXATIONS).items()):
        try:
            yield _loaded("relaxation", point)
        except ImportError:
            continue


def solvers() -> Listing[SolverInfo]:
    """Return every solver by name: what it accepts, its version, installed or not."""
    rows = Listing[SolverInfo]()
    for name, point in sorted(entry_points(SOLVERS).items()):
        try:
            cls = _loaded("solver", point)
        except ImportError:
            rows.append(SolverInfo(name, "?", "?", False, "?"))
            continue
        installed = cls.is_installed()
        rows.append(SolverInfo(name, "native" if cls.native else "through CVXPY",
                               cls.version() if installed else "-", installed, cls.summary))
    return rows
