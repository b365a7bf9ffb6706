"""Stand-ins for recipes and data, small enough to run whole protocols in seconds."""

import numpy as np

import margindsl as md

CLUSTERING = ("gmmc", "itersvr", "cpmmc", "lgmmc", "odmc")


def write_set(folder, name, n=24, seed=0, distance=2.0):
    """Write two Gaussian clusters of equal size as a CSV file of the protocol's layout."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % 2
    X = rng.normal(size=(n, 3)) + distance * (2 * classes - 1)[:, None]
    rows = ["f0,f1,f2,label", *(",".join(map(repr, [*row, int(c)])) for row, c in zip(X.tolist(), classes))]
    (folder / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def clustering(X, *, kernel="linear", balance=0.1, lam=None, C=1.0, **setting):
    """Declare a hinge problem with the parameters of any clustering recipe."""
    y, f = md.Labels(len(X)), md.Hyperplane(X, kernel=kernel)
    loss = (lam or C) * md.mean(md.hinge(y * f))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss), [abs(md.sum(y)) <= max(2, balance * len(X))],
                      relaxation=md.Alternating(restarts=1), solver="newton")


def supervised(X, y, *, kernel="linear", C=1.0, lam1=None, gamma_A=None, **setting):
    """Declare a hinge problem on the labelled points, with the parameters of any semi-supervised recipe."""
    labels, f = md.Labels(len(X)), md.Hyperplane(X, kernel=kernel, bias="penalised")
    known = np.flatnonzero(y)
    loss = md.hinge(labels * f)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + (lam1 or C) * md.mean(loss[known])), [labels[known] == y[known]],
                      relaxation="supervised", solver="newton")


def linked(X, *, must_link, cannot_link, kernel="linear", lam=1.0, **setting):
    """Declare a hinge problem under links."""
    problem = clustering(X, kernel=kernel, balance=1.0, C=lam)
    links = [link(problem.labels, pairs) for link, pairs in ((md.must_link, must_link), (md.cannot_link, cannot_link))
             if len(pairs)]
    return problem.with_constraints(*links)


def install(monkeypatch):
    """Put the stand-ins in the place of the recipes."""
    for name in CLUSTERING:
        monkeypatch.setattr(md.recipes, name, clustering, raising=False)
    for name in ("svm", "tsvm", "lapsvm", "usvm", "s4vm", "ssodm"):
        monkeypatch.setattr(md.recipes, name, supervised, raising=False)
    monkeypatch.setattr(md.recipes, "odmssc", linked, raising=False)
