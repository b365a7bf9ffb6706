"""scikit-learn estimators: thin, a declaration or a recipe, solved.

Loaded when first used; ``import margindsl`` alone does not import scikit-learn.
"""

from margindsl.estimators.classifiers import ODMClassifier
from margindsl.estimators.clusterer import MarginClusterer
from margindsl.estimators.embedding import MaximumMarginEmbedding
from margindsl.estimators.from_recipe import RecipeClassifier, RecipeClusterer
from margindsl.estimators.published import (
    CPM3C,
    CPMMC,
    GMMC,
    LGMMC,
    MMC,
    ODMC,
    ODMSSC,
    S4VM,
    SKMMC,
    TSVM,
    USVM,
    CutS3VM,
    IterSVR,
    LapSVM,
)
from margindsl.estimators.semisupervised import SemiSupervisedODM

__all__ = ["CPM3C", "CPMMC", "GMMC", "LGMMC", "MMC", "ODMC", "ODMSSC", "S4VM", "SKMMC", "TSVM", "USVM", "CutS3VM",
           "IterSVR", "LapSVM", "MarginClusterer", "MaximumMarginEmbedding", "ODMClassifier", "RecipeClassifier",
           "RecipeClusterer", "SemiSupervisedODM"]
