"""
Two thousand texts, twenty of them read
=======================================
"""
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from margindsl.estimators import SemiSupervisedODM

rng = np.random.default_rng(0)
words = np.array([f"{kind}{number}" for kind in ("sport", "money", "any") for number in range(40)])
topic = np.repeat([0, 1], 1000)
texts = [" ".join(np.r_[rng.choice(words[40 * t:40 * t + 40], 4), rng.choice(words[80:], 12)]) for t in topic]
known = np.where(np.arange(2000) % 100 == 0, topic, -1)
model = SemiSupervisedODM().fit(TfidfVectorizer().fit_transform(texts), known)
print((known >= 0).sum(), "read, accuracy", model.score(TfidfVectorizer().fit_transform(texts), topic))
assert (model.labels_ == topic).mean() > 0.9
