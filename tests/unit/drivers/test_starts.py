

def test_known_labels_alone_may_leave_no_least_value():
    """The scalar costs what all points weigh, of which the known ones have a part."""
    X = np.random.default_rng(0).normal(size=(8, 2))
    y, f, rho = md.Labels(8), md.Hyperplane(X), md.Scalar(nonneg=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(md.pos(rho - y * f)) - 4 * rho), [y[0] == 1, y[1] == -1])
    assert np.isfinite(problem.solve("exact", random_state=0).value)
