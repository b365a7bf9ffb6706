"""The SKMMC family: declarations by hand, the threshold, Algorithms 1 to 3."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers.run import Run
from margindsl.errors import DeclarationError
from margindsl.metrics import clustering_accuracy
from margindsl.program.passes import Answer
from margindsl.recipes import adaptive_cpmmc, kernel_cpmmc, skmmc, skmmc_v2
from margindsl.relaxations.cccp import CCCP
from margindsl.relaxations.first_cut import FirstCut, checked, normalised, sparse_cut

RECIPES = {"skmmc": skmmc, "skmmc_v2": skmmc_v2, "kernel_cpmmc": kernel_cpmmc, "adaptive_cpmmc": adaptive_cpmmc}
THRESHOLD = ("skmmc", "kernel_cpmmc", "adaptive_cpmmc")


def blobs(seed=0, n=60, shift=2.0):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, 1, -1)
    return rng.normal(size=(n, 2)) + shift * truth[:, None] * np.array([1.0, 0.3]), truth


def by_hand(name, X, C, l, kernel):
    y, f = md.Labels(len(X)), md.Hyperplane(X, kernel=kernel, bias=True)
    if name == "skmmc_v2":
        return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(md.hinge(y * f))), [abs(md.sum(f)) <= l])
    rho = md.Scalar(nonneg=True, name="rho")
    loss = md.mean(md.maximum(0, rho - y * f))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * loss - rho), [abs(md.sum(f)) <= l])


@pytest.mark.parametrize("name", RECIPES)
def test_the_recipe_is_the_formulation_written_by_hand(name):
    X, _ = blobs()
    kernel = "linear" if name == "adaptive_cpmmc" else md.RBF(md.sqrt_mean_distance)
    recipe, own = RECIPES[name](X, C=7.0, l=3.0), by_hand(name, X, 7.0, 3.0, kernel)
    program, other = recipe.program(), own.program()
    rng = np.random.default_rng(1)
    for _ in range(5):
        labels, w = np.where(rng.random(len(X)) < 0.5, 1, 0), rng.normal(size=program.features.rank)
        bias, scalars = rng.normal(), np.abs(rng.normal(size=program.losses.scalars.count))
        assert program.objective(labels, w, bias, scalars) == pytest.approx(other.objective(labels, w, bias, scalars))
    for mine, theirs in zip(program.decision, other.decision, strict=True):
        np.testing.assert_allclose(mine.weights * 3.0 / mine.upper, theirs.weights * 3.0 / theirs.upper)
    assert program.free_bias and other.free_bias


@pytest.mark.parametrize("name", RECIPES)
def test_separated_clusters_are_found(name):
    X, truth = blobs(shift=3.0)
    solution = RECIPES[name](X).solve(random_state=0)
    assert clustering_accuracy(truth, solution.labels) == 1.0
    assert abs(solution.decision.sum()) <= 1e-6 * len(X)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**4), C=st.sampled_from([2.0, 5.0, 10.0]), name=st.sampled_from(THRESHOLD))
def test_a_share_of_one_over_c_lies_below_the_threshold(seed, C, name):
    # At fixed labels Eq. 10 is the ν-SVM with ν = 1/C. Multipliers are at most C/n and sum to one.
    X, _ = blobs(seed, n=40, shift=2.5)
    solution = RECIPES[name](X, C=C, restarts=2).solve(random_state=0)
    rho, slack = solution.scalars["rho"], 1e-4
    assert rho >= 0
    if rho > 1e-3:
        assert np.mean(solution.margins < rho - slack) <= 1 / C + 1e-9
        assert np.mean(solution.margins <= rho + slack) >= 1 / C - 1e-9


@pytest.mark.parametrize("name", THRESHOLD)
def test_normalising_by_the_threshold_gives_a_unit_margin_problem(name):
    # Eq. 14: (w, b, ξ)/ρ is optimal for the threshold one with C/ρ in place of C.
    X, _ = blobs()
    solution = RECIPES[name](X).solve(random_state=0)
    kernel = "linear" if name == "adaptive_cpmmc" else md.RBF(md.sqrt_mean_distance)
    rho = solution.scalars["rho"]
    plain = by_hand("skmmc_v2", X, 10.0 / rho, 0.0, kernel)
    form = plain.program().fix_labels(np.where(solution.labels > 0, 1, 0))
    fixed = md.Solver("newton").solve(form)
    decision = form.outputs(fixed["w"], fixed["bias"])[:, 1]
    np.testing.assert_allclose(decision, solution.decision / rho, atol=2e-3)


def test_the_value_at_the_optimum_is_minus_half_the_squared_norm():
    # Eq. 36 with l = 0: ½‖w‖² − ρ + Cξ = −½‖w‖².
    X, _ = blobs()
    solution = skmmc(X).solve(random_state=0)
    program = skmmc(X).program()
    raw = md.Solver("newton").solve(program.fix_labels(np.where(solution.labels > 0, 1, 0)))
    assert solution.value == pytest.approx(-0.5 * float(raw["w"] @ raw["w"]), rel=1e-3)


def test_cccp_ends_where_labels_are_the_signs_and_never_goes_up():
    X, _ = blobs(shift=1.0)
    solution = kernel_cpmmc(X, restarts=1).solve(random_state=0)
    assert np.all(solution.labels * solution.decision >= -1e-9)  # Eq. 6
    path = [record.value for record in solution.history if record.stage == "cccp"]
    assert all(later <= earlier + 1e-6 for earlier, later in pairwise(path))


def test_few_basis_vectors_lose_little():
    X, _ = blobs(1, n=150, shift=1.5)
    sparse, full = skmmc(X, max_basis=40).solve(random_state=0), kernel_cpmmc(X).solve(random_state=0)
    assert np.mean(sparse.labels == full.labels) in (pytest.approx(0.0, abs=0.05), pytest.approx(1.0, abs=0.05))
    assert sparse.value == pytest.approx(full.value, rel=0.05)


def test_defaults_are_those_of_the_paper():
    X, _ = blobs()
    problem = skmmc(X)
    assert (problem.relaxation.name, problem.solver.name, problem.solver.eta) == ("first-cut", "cpsp", 0.01)
    assert "- rho + 10 * md.mean" in str(problem.objective)
    assert problem.hyperplane.kernel == md.RBF(md.sqrt_mean_distance)
    assert kernel_cpmmc(X).solver.name == adaptive_cpmmc(X).solver.name == "cutting-plane"


@pytest.mark.parametrize("name", THRESHOLD)
@pytest.mark.parametrize("C", [1.0, 0.5, -1.0, float("nan"), md.Parameter(1.0), "2", None])
def test_a_threshold_needs_c_above_one(name, C):
    words = "expected C > 1; with less the adaptive threshold grows without end"
    with pytest.raises(DeclarationError, match=rf"\(C=.*\): .*({words}|enter)"):
        RECIPES[name](blobs()[0], C=C)


def test_other_relaxations_and_solvers_take_the_declaration():
    X, truth = blobs(shift=3.0)
    for solution in (skmmc(X).solve("alternating", "newton", random_state=0),
                     skmmc_v2(X).solve("cccp", "newton", random_state=0)):
        assert clustering_accuracy(truth, solution.labels) == 1.0


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**4), shift=st.sampled_from([0.0, 1.0]), width=st.sampled_from([0.1, 1.0, 10.0]))
def test_moves_under_the_first_cut_never_shorten_the_difference_of_means(seed, shift, width):
    # Eq. 18 with one cut c = 1 and b from Eq. 23: ‖w‖² = ‖Σ (y_i − ȳ) φ_i‖² / n².
    X, _ = blobs(seed, n=30, shift=shift)
    program = skmmc(X, kernel=md.RBF(width)).program()
    labels = np.where(np.random.default_rng(seed).random(len(X)) < 0.5, 1, 0)
    H = np.eye(len(X)) - 1 / len(X)
    K = H @ md.RBF(width).matrix(X, X) @ H
    lengths = [float(path @ K @ path) for path in (2 * checked(program, labels, moves) - 1 for moves in range(12))]
    assert all(later >= earlier - 1e-9 * lengths[-1] for earlier, later in pairwise(lengths))
    rest = checked(program, labels)
    np.testing.assert_array_equal(checked(program, rest, 1), rest)
    assert np.all((2 * rest - 1) * (K @ (2 * rest - 1)) >= -1e-9 * lengths[-1])


def test_random_starts_that_overlap_end_at_zero_unless_the_first_cut_moves_them():
    # Reduced convex hulls that meet leave w = 0: every such labelling has the value 0 and stays.
    X, truth = blobs(4, n=200, shift=3.0)
    options = {"restarts": 1, "start": "random", "kernel": md.RBF(20.0)}
    plain, moved = (skmmc(X, first_cut=cut, **options).solve(random_state=2) for cut in (False, True))
    assert moved.value < plain.value
    assert clustering_accuracy(truth, moved.labels) == 1.0 > clustering_accuracy(truth, plain.labels)


def test_starts_passed_over_are_the_first_ones():
    X, _ = blobs(5, shift=0.0)
    program = skmmc(X).program()

    def starts(**options):
        run = Run(program, md.Solver("newton"), md.Solver("newton"), Budget(), np.random.default_rng(3))
        return list(FirstCut(start="random", moves=0, **options).starts(run))

    every = starts(restarts=5)
    for skip in range(5):
        np.testing.assert_array_equal(starts(restarts=1, skip=skip), [every[skip]])
    run = Run(program, md.Solver("newton"), md.Solver("newton"), Budget(), np.random.default_rng(3))
    carried = list(CCCP(start="random", restarts=1, continuation=3).starts(run))
    np.testing.assert_array_equal(starts(restarts=1, continuation=3), carried)
    assert np.any(carried[0] != every[0])


def test_labels_moved_by_the_first_cut_keep_the_constraints():
    X, _ = blobs(6, n=20, shift=1.0)
    y, f = md.Labels(20), md.Hyperplane(X)
    objective = md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f)))
    program = md.Problem(objective, [y[0] != y[1], md.sum(y) == 0]).program()
    labels = program.labels.sample(np.random.default_rng(0), 1)[0]
    moved = checked(program, labels)
    assert moved[0] != moved[1] and moved.sum() == 10


@pytest.mark.parametrize("name", ["moves", "skip", "basis"])
def test_counts_of_the_first_cut_are_checked(name):
    with pytest.raises(DeclarationError, match=f"{name}=-1.*at least 0"):
        FirstCut(**{name: -1})


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**4), width=st.sampled_from([0.3, 1.0, 3.0]))
def test_a_sparse_cut_over_all_points_is_the_one_of_equation_44(seed, width):
    X, _ = blobs(seed, n=25, shift=0.5)
    program, labels = skmmc(X, kernel=md.RBF(width)).program(), np.where(np.arange(25) % 3 == 0, -1, 1)  # codes
    H = np.eye(25) - 1 / 25
    K = H @ md.RBF(width).matrix(X, X) @ H
    residuals = [labels - (K[b] @ labels) / K[b, b] * e for b, e in enumerate(np.eye(25))]
    best = int(np.argmin([z @ K @ z for z in residuals]))
    f = (K @ labels)[best] * K[best]
    found = sparse_cut(program, (labels + 1) // 2, 25, np.random.default_rng(seed))
    assert np.all((2 * found - 1) * f >= -1e-8 * np.abs(f).max())


def test_the_basis_start_is_taken_by_the_recipe():
    X, truth = blobs(7, shift=3.0)
    solution = skmmc(X, start="basis", restarts=3).solve(random_state=0)
    assert clustering_accuracy(truth, solution.labels) == 1.0


@pytest.mark.parametrize("name", THRESHOLD)
def test_the_weight_may_be_a_parameter(name):
    X, _ = blobs()
    C = md.Parameter(2.0)
    problem = RECIPES[name](X, C=C, kernel="linear")
    for value in (2.0, 5.0):
        C.value = value
        fixed = RECIPES[name](X, C=value, kernel="linear").solve(random_state=0)
        assert problem.solve(random_state=0).value == pytest.approx(fixed.value, rel=1e-6)


def test_the_first_cut_is_true_or_false():
    with pytest.raises(DeclarationError, match="first_cut='no'.: expected True or False"):
        md.recipes.skmmc(blobs()[0], first_cut="no")


def test_epsilon_ends_the_procedure_by_equations_14_and_15():
    X, truth = blobs()
    program, rng = skmmc(X, C=7.0).program(), np.random.default_rng(0)
    fits, expected = [], []
    for rho in (0.4, 0.9):
        w, labels, scalars = rng.normal(size=program.features.rank), (truth + 1) // 2, np.array([rho])
        value, f = program.objective(labels, w, 0.3, scalars), program.features.apply(w) + 0.3
        fits.append(Answer(labels, w, np.array([0.3]), scalars, f, value, None))
        expected.append(0.5 * float(w @ w) / rho**2 + 7.0 * np.mean(np.maximum(0, 1 - truth * f / rho)))
        assert normalised(program, fits[-1]) == pytest.approx(expected[-1])
    first, second = sorted(fits, key=lambda fit: -fit.value)  # falling, so that epsilon alone ends it
    change = abs(normalised(program, second) / normalised(program, first) - 1)
    for epsilon, ends in ((None, False), (0.99 * change, False), (1.01 * change, True)):
        assert FirstCut(epsilon=epsilon).ends_with(program, first, second) is ends


@pytest.mark.parametrize("name", ["skmmc", "kernel_cpmmc", "adaptive_cpmmc"])
def test_what_is_refused_names_the_recipe_that_was_called(name):
    X = np.random.default_rng(0).normal(size=(6, 2))
    for options, words in (({"C": 0.5}, rf"md.recipes.{name}\(C=0.5\)"), ({"first_cut": 1}, rf"^{name}\(first_cut=")):
        with pytest.raises(DeclarationError, match=words):
            getattr(md.recipes, name)(X, **options)
