"""The published methods as estimators: each is a recipe, its arguments are parameters."""

from __future__ import annotations

import margindsl as md
from margindsl.estimators.from_recipe import RecipeClassifier, RecipeClusterer


class CPM3C(RecipeClusterer, recipe=md.recipes.cpm3c): ...


class CPMMC(RecipeClusterer, recipe=md.recipes.cpmmc): ...


class GMMC(RecipeClusterer, recipe=md.recipes.gmmc): ...


class IterSVR(RecipeClusterer, recipe=md.recipes.itersvr): ...


class LGMMC(RecipeClusterer, recipe=md.recipes.lgmmc): ...


class MMC(RecipeClusterer, recipe=md.recipes.mmc): ...


class ODMC(RecipeClusterer, recipe=md.recipes.odmc): ...


class ODMSSC(RecipeClusterer, recipe=md.recipes.odmssc): ...


class SKMMC(RecipeClusterer, recipe=md.recipes.skmmc): ...


class CutS3VM(RecipeClassifier, recipe=md.recipes.cuts3vm): ...


class LapSVM(RecipeClassifier, recipe=md.recipes.lapsvm): ...


class S4VM(RecipeClassifier, recipe=md.recipes.s4vm): ...


class TSVM(RecipeClassifier, recipe=md.recipes.tsvm): ...


class USVM(RecipeClassifier, recipe=md.recipes.usvm): ...


__all__ = ["CPM3C", "CPMMC", "GMMC", "LGMMC", "MMC", "ODMC", "ODMSSC", "S4VM", "SKMMC", "TSVM", "USVM", "CutS3VM",
           "IterSVR", "LapSVM"]
