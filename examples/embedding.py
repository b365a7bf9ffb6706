"""
Can margins choose a plane to look at?
======================================

Each direction parts the points by a wide margin, orthogonal to those before.
"""
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from margindsl.estimators import MaximumMarginEmbedding

images, digits = load_digits(return_X_y=True)
chosen = np.flatnonzero(np.isin(digits, (2, 4, 7)))[:150]
X, shown = images[chosen] / 16, digits[chosen]
model = MaximumMarginEmbedding(n_components=2, random_state=0)
plane = model.fit_transform(X)
for digit in (2, 4, 7):
    plt.scatter(*plane[shown == digit].T, s=14, label=f"digit {digit}")
plt.gca().set(xlabel="along the first hyperplane's weights", ylabel="along the second")
plt.legend()

first, second = (solution.weights for solution in model.solutions_)
assert abs(first @ second) <= 1e-8 * np.linalg.norm(first) * np.linalg.norm(second)
