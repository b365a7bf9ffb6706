"""
Two objectives over five seeds, with a picture
==============================================
"""
from sklearn.datasets import load_iris

import margindsl as md

X, species = load_iris(return_X_y=True)
y, f = md.Labels(100), md.Hyperplane(X[50:])
losses = {"odm": md.odm(y * f, 0.4, 0.2), "hinge": md.hinge(y * f)}
problems = {name: md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(loss)), [abs(md.sum(y)) <= 10])
            for name, loss in losses.items()}
table = md.compare(problems, md.Alternating(restarts=1, start="random"), truth=species[50:], seeds=5)
print(table.summary()[["problem", "value mean", "value std", "accuracy mean", "agreement"]].round(3))
table.plot().figure.savefig("seeds.png")
assert len(table.rows) == 10
