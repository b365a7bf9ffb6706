"""Nothing a solver can reach from a form can be written to, before and after the form was used."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers.run import Run
from margindsl.host.frozen import frozen
from margindsl.program.lift import Cuts
from margindsl.runtime.registry import as_relaxation, make_solver

pytestmark = pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 3))


def arrays_of(value, seen=None):
    """Yield every array reachable through attributes, containers and sparse matrices."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, type) or value is None:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
    elif sp.issparse(value):
        yield from (value.data, value.indices, value.indptr)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from arrays_of(item, seen)
    elif isinstance(value, dict):
        yield from arrays_of(list(value.values()), seen)
    elif type(value).__module__.startswith("margindsl"):
        own = dict(getattr(value, "__dict__", {}))
        if dataclasses.is_dataclass(value):
            own |= {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        yield from arrays_of(own, seen)


def features():
    return {
        "dense": X, "uncentred": X, "sparse": sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)), "rbf": X, "bias": X,
        "scaled": 1e5 * X}


def declare(name, constraints=lambda y, f: [abs(md.sum(y)) <= 2], loss=md.hinge, clusters=None):
    points = features()[name]
    y = md.Labels(8) if clusters is None else md.Labels(8, clusters=clusters)
    f = md.Hyperplane(points, kernel=md.RBF(1.0) if name == "rbf" else "linear",
                      centre=name != "uncentred", bias="penalised" if name == "bias" else False)
    margin = y * f if clusters is None else md.margin(y, f)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(loss(margin))), constraints(y, f))


def forms():
    for name in features():
        program = declare(name).compile("alternating").presolved.program
        for relaxation in ("alternating", "cccp", "minimax", "sdp", "weight-lifting", "supervised"):
            yield f"{relaxation}, {name}", as_relaxation(relaxation).lower(program)
        yield f"branching, {name}", md.Exact(method="branching").lower(program)
    program = declare("dense", loss=md.squared_hinge, constraints=lambda y, f: []).program()
    yield "gmmc", as_relaxation("gmmc").lower(program)
    cut = md.SDP(cuts="all").lower(declare("dense").program())
    yield "cuts", dataclasses.replace(cut, cuts=Cuts.odd(np.array([[0, 1, 2]]), np.array([[1, 1, -1]])))
    decision = declare("dense", lambda y, f: [abs(md.sum(f)) <= 1])
    yield "decision", decision.program().fix_labels(np.ones(8, dtype=int))
    clusters = declare("dense", lambda y, f: [md.sizes(y, at_least=1)], clusters=3).program()
    yield "clusters", clusters.fix_labels(np.arange(8) % 3)
    yield "codes", md.SDP().lower(clusters)


@pytest.mark.parametrize("name,form", list(forms()))
def test_no_array_of_a_form_can_be_written(name, form):
    if hasattr(form, "labelling"):
        run = Run(None, None, make_solver("newton"), Budget(), np.random.default_rng(0))
        assert run.session(form, run.fixed_solver).solve(form, Budget()).has_answer  # fills what is kept
    for entry in ("points", "weights", "slopes", "shifts", "coupling"):
        getattr(form.losses, entry)
    rows = form.decision_rows
    found = [*arrays_of(form), *rows]
    assert len(found) > 5
    if getattr(form.features, "is_dense", False):
        found.append(form.features.matrix)
    for array in found:
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_frozen_copies_nothing_and_leaves_the_owner_alone():
    for array in (np.zeros((3, 2)), np.asfortranarray(np.zeros((3, 2))), np.arange(9)[::2], np.zeros((0, 4)),
                  np.array(2.0), np.ones(3, dtype=bool), np.zeros(2, dtype=np.int8)):
        view = frozen(array)
        assert array.flags.writeable and not view.flags.writeable and frozen(view) is view
        assert view.dtype == array.dtype and view.shape == array.shape
        assert not array.size or (np.shares_memory(view, array) and view.strides == array.strides)
    assert frozen(None) is None and frozen((1, "a")) == (1, "a")


def test_the_points_of_the_user_stay_writeable():
    points = X.copy()
    f = md.Hyperplane(points, centre=False)
    md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(md.Labels(8) * f)))).solve("alternating")
    assert points.flags.writeable
