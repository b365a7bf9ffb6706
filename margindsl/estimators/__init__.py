"""scikit-learn estimators: thin, a declaration or a recipe, solved.

Loaded when first used; ``import margindsl`` alone does not import scikit-learn.
"""

from margindsl.estimators.classifiers import ODMClassifier, SemiSupervisedODM
from margindsl.estimators.clusterer import MarginClusterer
from margindsl.estimators.embedding import MaximumMarginEmbedding
from margindsl.estimators.published import CPM3C, CPMMC, LGMMC, ODMC

__all__ = ["CPM3C", "CPMMC", "LGMMC", "ODMC", "MarginClusterer", "MaximumMarginEmbedding", "ODMClassifier",
           "SemiSupervisedODM"]
