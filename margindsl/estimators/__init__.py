"""Estimators for scikit-learn: each declares a problem or calls a recipe, solves it, and keeps the solution."""

from margindsl.estimators.classifiers import ODMClassifier
from margindsl.estimators.clusterer import MarginClusterer
from margindsl.estimators.embedding import MaximumMarginEmbedding
from margindsl.estimators.semisupervised import SemiSupervisedODM
from margindsl.estimators.spatial_sign import SpatialSign
from margindsl.estimators.walked import Walked

__all__ = ["MarginClusterer", "MaximumMarginEmbedding", "ODMClassifier", "SemiSupervisedODM", "SpatialSign", "Walked"]
