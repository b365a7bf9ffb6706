"""The solution: immutable, judged by recomputation, able to predict and to verify its bound."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import relative_gap
from margindsl.contract import Status
from margindsl.drivers.run import Record
from margindsl.errors import DeclarationError, one_of
from margindsl.features import AffineFeatures
from margindsl.features.dense import JoinedFeatures
from margindsl.features.points import check_columns, is_lazy, map_chunks
from margindsl.host.frozen import frozen
from margindsl.labelset import Names
from margindsl.language.symbols import Scalar
from margindsl.program.certificates import Certificate
from margindsl.program.program import CODINGS
from margindsl.proof.check import Report
from margindsl.proof.export import codes_of
from margindsl.proof.files import write_proof
from margindsl.runtime.judging import Basis, verify, written
from margindsl.runtime.maps import read_map, stored_map
from margindsl.runtime.stored import features_of, judged, read_stored, same_problem
from margindsl.typing import FloatArray, IntArray, PictureName
from margindsl.views import notebook, write_report
from margindsl.views.plots import SOLUTION
from margindsl.views.reading import advice, meaning

FROZEN = ("timings", "origin")  # mappings that nobody can write to


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


@dataclass(frozen=True, eq=False)
class Solution:
    """Represent the answer to a problem.

    Parameters
    ----------
    labels : (n,) int array
        Labels ±1, or clusters 0..k−1; always a member of the label set B.
    value : float
        Objective of the labels: the hyperplane fitted to them to high accuracy, recomputed from scratch.
    bound : float
        Certified lower bound of the integer problem; −inf when there is none.
    estimate : float
        Uncertified value of the relaxation; NaN when there is none.
    state : Status
    weights : (r,) float array
        Weight vector in the coordinates of the features (a kernel's factor); (r, k) of k clusters.
    bias : float
        (k,) of k clusters with a free bias.
    decision : (n,) float array
        Decision values f of the training points; (n, k) of k clusters.
    scalars : mapping of str or Scalar to float
        Shared scalars by name, and by what declared them.
    certificate : Certificate or None
        The proof of `bound`.
    label_weights : (labellings (T, n), μ (T,)) or None
        The mixture of a minimax relaxation.
    label_factor : (n, p) float array or None
        V with M = VVᵀ of a semidefinite relaxation.
    history : tuple of Record
        Values and bounds on the way, in the units of `value`; a bound counts when the certificate has proved it.
    timings : mapping of str to float
        Seconds by stage.
    message : str
        A solver's own words, where it did not end well; those of solvers that handed over to another one come first.
    relaxation, solver : str
        The solver is the one that gave the answer.
    coding : {"binary", "crammer-singer", "simplex"}
        What the margins are.
    basis : Basis, StoredProof or None
        What `verify` judges it by: the problem as declared, or the proof in its file.
    unverified : str
        What of a loaded solution could not be verified.
    column_names : tuple of str or None, of several hyperplanes a tuple of those
        Of the DataFrame the points were; new points must have the same.
    origin : mapping
        What was solved and how: the formula, its parameters, the options of the solve, versions of packages.
    """

    labels: IntArray
    value: float
    bound: float
    estimate: float
    state: Status
    weights: FloatArray
    bias: FloatArray | float
    decision: FloatArray
    scalars: Mapping[str, float]
    features: Any
    certificate: Certificate | None = None
    label_weights: tuple[IntArray, FloatArray] | None = None
    label_factor: FloatArray | None = None
    history: tuple[Record, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    message: str = ""
    relaxation: str = ""
    solver: str = ""
    coding: str = "binary"
    basis: Any = None
    unverified: str = ""
    column_names: tuple[Any, ...] | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    _point_map: Any = None  # of a loaded solution, features of no point

    def __post_init__(self) -> None:
        if self.certificate is not None:
            object.__setattr__(self, "certificate", replace(self.certificate, bound=self.bound))
        for name in ("labels", "weights", "decision"):
            array = np.asarray(getattr(self, name))
            object.__setattr__(self, name, frozen(array.copy() if array.flags.writeable else array))
        if not isinstance(self.scalars, Scalars):
            object.__setattr__(self, "scalars", Scalars(self.scalars))
        for name in FROZEN:
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {name: dict(getattr(self, name)) for name in FROZEN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, MappingProxyType(value) if name in FROZEN else value)

    @property
    def status(self) -> str:
        """Return the status word: ``optimal``, ``converged``, ``time_limit``, ``interrupted``, …"""
        return self.state.word

    @property
    def gap(self) -> float:
        """Return the certified relative gap (value − bound)/|value|; inf without a bound."""
        return relative_gap(self.value, self.bound)

    @property
    def margins(self) -> FloatArray:
        """Return the (n,) margins: y∘f of two clusters, Crammer-Singer or simplex-coded margins of more."""
        names = Names(self.clusters)
        return CODINGS[self.coding].margins(names.read(self.labels), names.table(self.decision))

    @property
    def clusters(self) -> int:
        """Return the number of clusters."""
        return max(2, self.decision[0].size)  # of two, the decision values of one say those of both

    @property
    def w(self) -> tuple[FloatArray, ...]:
        """Return the weights of every hyperplane, in the order of `problem.hyperplanes`."""
        features = self._point_map if self.features is None else self.features
        return tuple(np.split(self.weights, getattr(features, "ends", np.zeros(2, dtype=int))[1:-1]))

    @property
    def violated_links(self) -> list[tuple[int, int, float]]:
        """Return (i, j, cost) of the links with a weight that the labels violate, dearest first."""
        rows = getattr(getattr(self.basis, "declaration", None), "rows", None)
        return [] if rows is None else sorted(rows.violated(self.labels), key=lambda link: -link[2])

    @property
    def kernel_weights(self) -> FloatArray:
        """Return the share (v,) of each kernel, or hyperplane of several, in Σ‖w_v‖: the weight d_v that
        ``md.norm(f, "kernels")**2`` or ``(md.norm(a) + md.norm(b))**2`` gives it.

        Raises
        ------
        DeclarationError
            If there is one kernel, or the solution was loaded without its problem.
        """
        features, lengths = self.features, np.array([np.linalg.norm(w) for w in self.w])
        while isinstance(features, AffineFeatures):
            features = features.base
        if len(lengths) == 1:
            if not isinstance(features, JoinedFeatures):
                raise DeclarationError("kernel_weights: the hyperplane has no list of kernels, or is loaded without "
                                       "its problem; declare md.Hyperplane(X, kernel=[...])")
            w = np.asarray(self.weights).reshape(len(self.weights), -1)[:len(features.block)]
            lengths = np.sqrt(np.bincount(features.block, np.sum(w**2, axis=1)))
        return np.asarray(lengths / max(float(lengths.sum()), np.finfo(float).tiny))

    @property
    def outliers(self) -> IntArray:
        """Return the points with a loss at its cap (`md.minimum`), which no longer moves the hyperplane."""
        return self.basis.outliers(self) if isinstance(self.basis, Basis) else np.zeros(0, dtype=int)

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """Return the number of points of every cluster, as `md.sizes` bounds them: of −1 and +1, or of 0..k−1."""
        return tuple(np.bincount(Names(self.clusters).read(self.labels), minlength=self.clusters).tolist())

    @property
    def margin_mean(self) -> float:
        """Return the mean margin."""
        return float(np.mean(self.margins))

    @property
    def margin_variance(self) -> float:
        """Return the variance of the margins."""
        return float(np.var(self.margins))

    @property
    def label_matrix(self) -> FloatArray | None:
        """Return the (n, n) relaxed label matrix of a semidefinite relaxation, or None."""
        return None if self.label_factor is None else self.label_factor @ self.label_factor.T

    def decision_function(self, X: Any) -> FloatArray:
        """Return the decision values of new points (m, d): (m,), or (m, k) of k clusters.

        Of several hyperplanes X is a list of the points of each, None for those that are left out of the sum.
        Constraints of the training set are not applied. Of a Dask array they are one, computed when it is.

        Raises
        ------
        DeclarationError
            If X has another number of columns than the training points, a DataFrame other names or another order of
            them, or the solution was loaded without its problem.
        """
        features = self._point_map if self.features is None else self.features
        if features is None:
            raise DeclarationError(
                "this solution was loaded without its problem, and its file holds no map of new points: too great, or "
                "of a kernel of one's own; load it with Solution.load(path, problem)")
        check_columns(X, self.column_names)
        weights = np.asarray(self.weights)
        if is_lazy(X):
            decided = partial(_decided, features.take(slice(0, 0)), weights, self.bias)  # the map without points
            return map_chunks(decided, X, weights.shape[1:], float)
        return _decided(features, weights, self.bias, X)

    def predict(self, X: Any) -> IntArray:
        """Return labels of new points: the sign of `decision_function` (+1 at zero), or its largest column."""
        found, predicted = self.decision_function(X), Names(self.clusters).predicted
        return map_chunks(predicted, found, (), int) if is_lazy(X) else predicted(found)

    def verify(self) -> Report:
        """Recompute labels in B, decision values, value, bound, gap and status for the problem as declared.

        Returns
        -------
        Report
            True when nothing failed; printed, it names what was proved, what failed and what could not be checked.

        Examples
        --------
        >>> import margindsl as md
        >>> y, f = md.Labels(4), md.Hyperplane([[-2.0], [-1.0], [1.0], [2.0]])
        >>> problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0])
        >>> report = problem.solve("exact").verify()
        >>> bool(report), report.failures
        (True, [])
        """
        if self.basis is None:
            return Report(unverified=["the solution has neither its problem nor a proof"])
        if isinstance(self.basis, Basis):
            return verify(self, self.certificate)
        return self.basis.verify(self)

    def summary(self) -> str:
        """Return a few lines a person reads first."""
        lines = textwrap.TextWrapper(100, subsequent_indent=" " * 10, break_on_hyphens=False)
        return "\n".join(map(lines.fill, self._facts()))

    def _facts(self) -> list[str]:
        bound = f"{self.bound:.6g} (certified, gap {100 * self.gap:.3g} %)" if np.isfinite(self.bound) else "none"
        counts = " / ".join(map(str, self.cluster_sizes))
        empty = "" if all(self.cluster_sizes) else "; that none is empty is a constraint: md.sizes(y, at_least=1)"
        lines = [
            f"status    {self.state.value}",
            f"value     {self.value:.8g}",
            f"bound     {bound}",
            f"clusters  {counts} of {len(self.labels)} points{empty}",
            f"margins   mean {self.margin_mean:.4g}, variance {self.margin_variance:.4g}",
        ]
        if "total" in self.timings:
            lines.append(f"seconds   {self.timings['total']:.2f}")
        if self.unverified:
            lines.append(f"unverified {self.unverified}")
        if self.message:
            lines.append(f"solver    {self.message}")
        return [*lines, f"meaning   {meaning(self)}", f"next      {advice(self)}"]

    def __repr__(self) -> str:
        return (f"Solution(status={self.status!r}, value={self.value:.6g}, bound={self.bound:.6g}, "
                f"relaxation={self.relaxation!r}, solver={self.solver!r}{', unverified' if self.unverified else ''})")

    def _repr_html_(self) -> str:
        return notebook.facts(f"Solution by {self.relaxation} with {self.solver}", self._facts())

    def plot(self, kind: PictureName = "margins", ax: Any = None, **options: Any) -> Any:
        """Draw a picture of the solution.

        Parameters
        ----------
        kind : {"margins", "profile", "boundary", "convergence", "label_matrix", "features"}
            A function of `margindsl.views.plots`.
        ax : matplotlib axes, optional
        **options
            Of that function.

        Returns
        -------
        matplotlib axes

        Raises
        ------
        UnknownNameError
            If there is no such picture.
        NotInstalledError
            If matplotlib is not installed.
        """
        return SOLUTION[one_of("picture of a solution", kind, SOLUTION)](self, ax, **options)

    def report(self, path: str | Path, *, title: str = "", truth: Any = None, names: Sequence[str] | None = None
               ) -> None:
        """Write one HTML page that needs nothing else: formula, labels, margins, bound, proof, versions and seed.

        Parameters
        ----------
        path : str or Path
        title : str
            Heading of the page.
        truth : (n,) array, optional
            Class of each point: the page has the clusters by class, and the accuracy.
        names : sequence of str, optional
            Of the columns; those of the data frame if not given.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_report(self, path, title=title, truth=truth, names=names)

    def save(self, path: str | Path) -> None:
        """Write the solution and its proof to a ``.npz`` file, in place of an old one only when it is whole.

        The proof holds the declaration as arrays, digests of declaration and points, the dual point and, of dense
        features of up to four million entries, the features. Others are needed again to verify value and bound. The map
        of new points is there, too, up to that size, so that the file predicts by itself.

        Raises
        ------
        OSError
            If the file cannot be written; one that was there is then as it was.
        """
        header = {
            "value": self.value, "bound": self.bound, "estimate": self.estimate, "state": self.state.name,
            "bias": np.asarray(self.bias).tolist(), "scalars": dict(self.scalars), "timings": dict(self.timings),
            "message": self.message, "relaxation": self.relaxation, "solver": self.solver, "coding": self.coding,
            "origin": dict(self.origin), "column_names": self.column_names,
            "history": [vars(record) for record in self.history]}
        labels, decision = codes_of(self.labels, self.decision)
        proof, proved = written(self)
        own = "own_" if len(proved.get("labels", labels)) > len(labels) else ""  # a proof has rows beyond the points
        arrays: dict[str, Any] = {f"{own}labels": labels, "weights": self.weights, f"{own}decision": decision}
        if self.label_weights is not None:
            arrays |= {"labellings": self.label_weights[0], "mixture": self.label_weights[1]}
        if self.label_factor is not None:
            arrays["label_factor"] = self.label_factor
        header["map"], mapped = stored_map(self._point_map if self.features is None else self.features)
        write_proof(path, proof | header, proved | arrays | mapped)

    @classmethod
    def load(cls, path: str | Path, problem: Any = None) -> Solution:
        """Read a saved solution and verify it; it predicts by the map in its file, or of the problem it is of.

        What cannot be verified, as value and bound of features that are not in the file, is named in `unverified`,
        and the status is no higher than what was proved.

        Parameters
        ----------
        path : str or Path
        problem : Problem, optional
            The same points, objective, parameters and constraints.

        Raises
        ------
        DeclarationError
            If the file is no saved solution, was changed, or does not hold what it claims (labels in B, value, bound,
            status); or the problem is another one.
        OSError
            If the file cannot be read; FileNotFoundError if it is not there.
        """
        header, arrays, proof = read_stored(path)
        header["bias"] = np.asarray(header["bias"], dtype=float)[()]
        labels, decision = (arrays.get(f"own_{name}", arrays[name]) for name in ("labels", "decision"))
        names = Names(max(2, decision.shape[1]))
        decision, features = decision.reshape(len(decision), *arrays["weights"].shape[1:]), None
        if problem is not None:
            features = features_of(problem, arrays["weights"], header["bias"], decision)
            proof = None if proof is None else same_problem(path, proof, problem)
        mixture = (arrays["labellings"], arrays["mixture"]) if "mixture" in arrays else None
        origin = header.get("origin", {}) | ({"unproved": header["unproved"]} if "unproved" in header else {})
        return judged(path, cls(
            names.written(labels), header["value"], header["bound"], header["estimate"],
            Status[header["state"]], arrays["weights"], header["bias"], decision, header["scalars"], features,
            label_weights=mixture, label_factor=arrays.get("label_factor"), timings=header["timings"],
            message=header["message"], relaxation=header["relaxation"], solver=header["solver"],
            coding=header.get("coding", "binary"), basis=proof, origin=origin,
            _point_map=None if problem is not None else read_map(
                header.get("map"), arrays, len(arrays["weights"]), path),
            column_names=_names(header.get("column_names")) if problem is None else problem.lower().column_names,
            history=tuple(Record(**record) for record in header.get("history", ()))), replace)


def _names(given: Any) -> tuple[Any, ...] | None:
    return tuple(_names(x) if isinstance(x, list) else x for x in given) if isinstance(given, list) else None


def _decided(features: Any, weights: FloatArray, bias: FloatArray | float, X: Any) -> FloatArray:
    return np.asarray(features.apply_to(X, weights)) + bias
