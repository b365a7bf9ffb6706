"""Names of columns: new points have the columns of the points, in their order."""

import numpy as np
import pandas as pd
import pytest

import margindsl as md
from margindsl.errors import DeclarationError

X = pd.DataFrame({"height": [-2.0, -1.0, 1.0, 2.0], "width": [0.1, 0.0, 0.3, -0.2]})


def declared(points):
    y, f = md.Labels(len(points)), md.Hyperplane(points)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0])


@pytest.mark.parametrize("read", [lambda solution, problem, path: solution,
                                  lambda solution, problem, path: md.Solution.load(path, problem)])
def test_other_columns_are_refused(read, tmp_path):
    problem = declared(X)
    solved = problem.solve("alternating")
    solved.save(tmp_path / "s.npz")
    solution = read(solved, problem, tmp_path / "s.npz")
    np.testing.assert_allclose(solution.decision_function(X), solution.decision, atol=1e-9)
    np.testing.assert_allclose(solution.decision_function(X.to_numpy()), solution.decision, atol=1e-9)
    with pytest.raises(DeclarationError, match="another order"):
        solution.predict(X[["width", "height"]])
    with pytest.raises(DeclarationError, match=r"missing \['width'\], unknown \['depth'\]"):
        solution.predict(X.rename(columns={"width": "depth"}))
    assert solution.predict(X[solution.column_names and list(solution.column_names)]).shape == (4,)


def test_names_that_are_no_text_are_names():
    for names in ([2001, 2002], pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])):
        frame = X.set_axis(names, axis=1)
        solution = declared(frame).solve("alternating")
        np.testing.assert_allclose(solution.decision_function(frame), solution.decision, atol=1e-9)
        with pytest.raises(DeclarationError, match="another order"):
            solution.predict(frame.iloc[:, ::-1])


def test_unnamed_points_take_any_columns():
    solution = declared(X.to_numpy()).solve("alternating")
    assert solution.column_names is None
    np.testing.assert_allclose(solution.decision_function(X), solution.decision, atol=1e-9)


def test_without_time_the_columns_are_known():
    solution = declared(X).solve("alternating", time_limit=1e-9)
    with pytest.raises(DeclarationError, match="another order"):
        solution.predict(X[["width", "height"]])
