"""
When is a wide margin the wrong aim?
====================================

Far points part best: with loose sizes the widest margin cuts off outliers. Bounds on the sizes are what forbids it.
"""
import matplotlib.pyplot as plt
import numpy as np

import margindsl as md

rng = np.random.default_rng(0)
X = np.vstack([rng.normal(centre, 0.5, (40, 2)) for centre in ((-1, 0), (1, 0))] + [rng.normal((0, 15), 0.5, (6, 2))])
y, f = md.Labels(len(X)), md.Hyperplane(X)
objective = md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f)))
answers = {name: md.Problem(objective, [abs(md.sum(y)) <= share * len(X)]).solve("weight-lifting", random_state=0)
           for name, share in {"sizes from 5 %": 0.9, "sizes from 40 %": 0.2}.items()}
for ax, (name, answer) in zip(plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")[1], answers.items()):
    answer.plot("boundary", ax=ax).set_title(f"{name}: value {answer.value:.2f}")

assert [min(answer.cluster_sizes) for answer in answers.values()] == [6, 43]
