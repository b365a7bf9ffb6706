"""Tolerances are relative: no max(1, |value|), and no absolute 1e-9 beside numbers that have the user's units."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGEST = 1e-4  # literals up to here are tolerances

# Every place that is allowed, with what makes its number one without unit.
ALLOWED = {
    "masses of a mixture sum to one": [
        ("margindsl/drivers/generation.py", "mu > 1e-09")],
    "the programme is scaled to entries of about one": [
        ("margindsl/program/quadratic.py", "s / z + 1e-15")],
    "a part of a step, or of a slope between 0 and 1": [
        ("margindsl/program/quadratic.py", "reach > 1e-10"),
        ("solvers/margindsl_solvers/engines/saddle/newton.py", "slope > 1e-09")],
    "a distance between mixtures, or weighted by the losses, that decides about a step alone": [
        ("solvers/margindsl_solvers/engines/saddle/run.py", "min(far) > 1e-12"),
        ("solvers/margindsl_solvers/engines/saddle/variance.py", "min(far) > 1e-12")],
    "keeps a division from underflow": [
        ("margindsl/calculus/root.py",
         "_EPS * (np.abs(low) + np.abs(high) + near + np.minimum(width, _blur(below, above))) + 1e-300"),
        ("margindsl/proof/tables.py", "-v * (1 + v) + 1e-300"),
        ("solvers/margindsl_solvers/engines/saddle/run.py", "used < 1e-200")],
    "damps a system that would be singular; the step is judged by what it reaches": [
        ("solvers/margindsl_solvers/engines/rows/model.py", "1e-14 + 1e-13 * curved"),
        ("margindsl/selection/prediction.py", "1e-09 * np.diag(corner) + 1e-09")],
    "the ones of I + Φᵀ H Φ": [
        ("margindsl/drivers/moves.py", "max(1.0, ROUNDING * float(np.trace(hessian)))"),
        ("solvers/margindsl_solvers/engines/lift/arrays.py", "np.diag(root) ** 2 > 1e-10")],
    "shares of a gap, cut into whole numbers of parts": [
        ("solvers/margindsl_solvers/engines/lift/interior.py", "shares.clip(1.0, FINER ** 3) ** (1 / 3) - 1e-09")],
    "what a fit takes, in passes": [
        ("margindsl/drivers/run.py", "max(1.0, a_fit / (WINDOW * self.a_pass))")],
    "ratios of slopes of cuts": [
        ("margindsl/program/quadratic.py", "np.maximum(steep / flat, 1.0)")],
    "numbers of points": [
        ("solvers/margindsl_solvers/engines/saddle/smoothed.py", "max(len(points) / ROWS, 1.0)"),
        ("margindsl/drivers/means.py", "np.maximum(sizes, 1.0)")],
    "arguments of losses in the units of the solve; candidates of rounding alone": [
        ("margindsl/drivers/moves.py", "distance > 1e-06")],
    "declarations of usual size that the library makes itself": [
        ("margindsl/testing/zoo.py", "values > 1e-12")],
}


def literal(node):
    """Return the number a node is written as, None where it is none."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def is_small(node):
    value = literal(node)
    return isinstance(value, float) and 0 < value <= LARGEST


def name_of(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def is_floored(node):
    """Return whether a call is max(1.0, x), or max(1, x) with a modulus or norm in it; max(1, count) is not."""
    if not (isinstance(node, ast.Call) and name_of(node) in ("max", "maximum", "fmax") and len(node.args) > 1):
        return False
    ones = [argument for argument in node.args if literal(argument) == 1]
    sizes = {name_of(inner) for inner in ast.walk(node) if isinstance(inner, ast.Call)} & {"abs", "norm", "fabs"}
    return bool(ones) and (bool(sizes) or any(isinstance(literal(one), float) for one in ones))


def is_absolute(node):
    """Return whether a node adds a small literal to something other than one, or compares with one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        sides = (node.left, node.right)
        return any(map(is_small, sides)) and not any(literal(side) == 1 for side in sides)
    return isinstance(node, ast.Compare) and any(map(is_small, [node.left, *node.comparators]))


def places(text):
    return [ast.unparse(node) for node in ast.walk(ast.parse(text)) if is_floored(node) or is_absolute(node)]


def test_no_tolerance_has_the_users_units():
    paths = [path for root in ("margindsl", "solvers") for path in sorted((ROOT / root).rglob("*.py"))]
    found = {(path.relative_to(ROOT).as_posix(), place)
             for path in paths for place in places(path.read_text(encoding="utf-8"))}
    allowed = {place for group in ALLOWED.values() for place in group}
    assert sorted(found - allowed) == []
    assert sorted(allowed - found) == [], "no longer there: take them off the list"


@pytest.mark.parametrize("text,count", [
    ("max(1, abs(value))", 1), ("max(abs(a), 1.0)", 1), ("np.maximum(1.0, norms)", 1), ("max(1, count)", 0),
    ("max(1, np.linalg.norm(w))", 1), ("gap <= tol * max(1.0, size)", 1), ("value <= bound + 1e-9", 1),
    ("x >= -1e-12", 1), ("safe = 1 + 1e-9", 0), ("gap <= 1e-9 * abs(value)", 0), ("x < 0.5", 0), ("n > 1", 0)])
def test_what_counts_as_one(text, count):
    assert len(places(text)) == count
