"""What the pictures show is what the solution holds."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, UnknownNameError

rng = np.random.default_rng(2)
SIDES = np.arange(12) % 2


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def declared(d=2, clusters=2, **plane):
    X = rng.normal(size=(12, d)) + 2.0 * np.outer(2 * SIDES - 1, np.ones(d))
    y, f = md.Labels(12, clusters=clusters), md.Hyperplane(X, **plane)
    lam = md.Parameter(3.0, name="lam")
    links = [md.must_link(y, [(0, 2), (1, 3)]), md.cannot_link(y, [(0, 1)])]
    margins = y * f if clusters == 2 else md.margin(y, f)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.hinge(margins))), links), lam


@pytest.fixture(scope="module")
def mixed():
    return declared()[0].solve("minimax", random_state=0)


def test_every_picture_goes_where_it_is_sent(mixed):
    assert set(md.plots.SOLUTION) <= set(md.plots.__all__)
    for kind in md.plots.SOLUTION:
        ax = plt.subplots()[1]
        assert mixed.plot(kind, ax) is ax and ax.has_data()
        assert ax.get_xlabel() or ax.get_ylabel()


@pytest.mark.parametrize("clusters", [2, 3])
def test_every_point_is_in_the_margins_and_in_the_plane(clusters):
    solution = declared(clusters=clusters)[0].solve("alternating", random_state=0)
    curves = [line.get_xydata() for line in solution.plot("margins").lines if len(line.get_xydata()) > 2]
    assert sum(y.sum() * (x[1] - x[0]) for x, y in (curve.T for curve in curves)) == pytest.approx(1.0, abs=0.02)
    drawn = solution.plot("boundary").collections
    assert sum(len(c.get_offsets()) for c in drawn if c.get_facecolor().size and len(c.get_offsets()) > 0) >= 12


def test_links_are_drawn_between_their_points(mixed):
    X = mixed.basis.declaration.hyperplane.X
    lines = {(line.get_linestyle(), tuple(map(tuple, line.get_xydata()))) for line in mixed.plot("boundary").lines}
    told = {("-", (tuple(X[i]), tuple(X[j]))) for i, j in [(0, 2), (1, 3)]} | {("--", (tuple(X[0]), tuple(X[1])))}
    assert lines == told


@pytest.mark.parametrize("d, plane", [(1, {}), (5, {}), (2, {"kernel": "rbf"}), (5, {"kernel": "rbf"})])
def test_points_of_any_width_have_a_plane(d, plane):
    problem, _ = declared(d, **plane)
    solution = problem.solve("alternating", random_state=0)
    assert solution.plot("boundary").has_data()
    others = rng.normal(size=(4, d))
    assert solution.plot("boundary", X=others).has_data()


def test_the_label_matrix_is_the_mixture_ordered_by_cluster(mixed):
    image = mixed.plot("label_matrix").images[0].get_array()
    rows, weights = mixed.label_weights
    relaxed = np.einsum("t,ti,tj->ij", weights, rows, rows)
    assert np.allclose(np.diag(image), 1.0) and np.allclose(image, image.T)
    assert np.allclose(np.sort(np.linalg.eigvalsh(image)), np.sort(np.linalg.eigvalsh(relaxed)), atol=1e-9)


def test_values_and_bounds_are_those_of_the_solutions():
    problem, lam = declared()
    compared = md.compare(problem, ["weight-lifting", "alternating"], random_state=0)
    values = compared.plot().lines[0].get_ydata()
    assert values.tolist() == [row.solution.value for row in compared.rows]
    grid = [1.0, 20.0]
    ax = md.plots.path(grid, problem.path(lam, grid, relaxation="weight-lifting", random_state=0), name="lam")
    assert ax.lines[0].get_xdata().tolist() == grid and ax.get_xscale() == "log" and ax.get_xlabel() == "lam"
    ends = compared.rows[0].solution.plot("convergence").lines[-1].get_ydata()
    assert ends[-1] == compared.rows[0].solution.value


def test_the_boundary_of_many_columns_parts_the_points_where_their_decision_values_change_sign():
    problem, _ = declared(6)
    solution = problem.solve("alternating", random_state=0)
    ax = solution.plot("boundary")
    drawn = np.vstack([cloud.get_offsets() for cloud in ax.collections if len(cloud.get_offsets()) > 1])
    assert np.array_equal(np.sort(np.sign(drawn[:, 0])), np.sort(np.sign(solution.decision)))  # across the weights at 0
    scaled = np.sort(drawn[:, 0]) * np.linalg.norm(solution.weights)
    centred = np.sort(solution.decision - solution.decision.mean())
    assert np.allclose(scaled, centred, atol=1e-6 * np.ptp(centred)) and "near points" not in ax.get_xlabel()


def test_every_cluster_of_many_columns_has_a_region_and_the_axes_say_what_it_is():
    X = 4.0 * np.eye(4)[np.arange(40) % 4] @ rng.normal(size=(4, 6)) + 0.1 * rng.normal(size=(40, 6))
    y, f = md.Labels(40, clusters=4), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 9 * md.mean(md.hinge(md.margin(y, f)))), [md.sizes(y, 10, 10)])
    ax = problem.solve("alternating", warm_start=np.arange(40) % 4, random_state=0).plot("boundary")
    assert "near points" in ax.get_xlabel()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [f"cluster {j}" for j in range(4)]


def test_points_of_several_hyperplanes_lie_in_one_plane():
    y, a = md.Labels(12), md.Hyperplane(2.0 * SIDES[:, None] + rng.normal(size=(12, 2)))
    b = md.Hyperplane(rng.normal(size=(12, 3)))
    problem = md.Problem(md.Minimize((md.sq_norm(a) + md.sq_norm(b)) / 2 + 9 * md.mean(md.hinge(y * (a + b)))),
                         [abs(md.sum(y)) <= 2])
    solution = problem.solve("alternating", random_state=0)
    assert solution.plot("boundary").get_xlabel() == "along the weights" and len(md.plots.influences(solution)) == 5
    assert solution.plot("boundary", X=[rng.normal(size=(4, 2)), rng.normal(size=(4, 3))]).has_data()


def test_what_there_is_no_picture_of(mixed, tmp_path):
    plain = declared()[0].solve("alternating", random_state=0)
    with pytest.raises(DeclarationError, match="no label matrix"):
        plain.plot("label_matrix")
    with pytest.raises(UnknownNameError, match="margins"):
        plain.plot("margin")
    plain.save(tmp_path / "s.npz")
    with pytest.raises(DeclarationError, match="without its problem"):
        md.Solution.load(tmp_path / "s.npz").plot("boundary")
    with pytest.raises(DeclarationError, match="1 values and 2 solutions"):
        md.plots.path([1.0], [plain, plain])
    with pytest.raises(DeclarationError, match="0 values and 0 solutions"):
        md.plots.path([], [])
    K = np.eye(4) + 1.0
    y, f = md.Labels(4), md.Hyperplane(None, kernel=md.Precomputed(K))
    kernel = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0])
    with pytest.raises(DeclarationError, match="kernel alone"):
        kernel.solve("alternating", random_state=0).plot("boundary")


def test_problems_with_rows_beyond_their_points_are_drawn(tmp_path):
    X = np.random.default_rng(0).normal(size=(12, 2)) + np.repeat([[-3, 0], [3, 0]], 6, axis=0)
    linked = md.recipes.softlinks(X, must_link=[(0, 1)], cannot_link=[(0, 7)]).solve("alternating", random_state=0)
    assert linked.plot("boundary").has_data()
    linked.report(tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")
