"""The experiments of the papers: methods, parameter grids, repeats, measures, as printed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from data import printed_table

from margindsl.errors import UnknownNameError

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # multiples of √γ, γ the average distance between points
KERNELS = ("linear", *(f"rbf {width:g}" for width in WIDTHS))
WEIGHTS = (1.0, 10.0, 100.0, 1000.0)
SHAPES = (0.2, 0.4, 0.6, 0.8)
SDP_POINTS, GMMC_POINTS = 400, 1000  # above them these are left out: a solve takes minutes
SPECTRAL_POINTS = 5000  # an n × n matrix
DIGIT_PAIRS = tuple(f"Digits {a}-{b}" for a, b in itertools.combinations(range(10), 2))

Grid = Mapping[str, tuple[Any, ...]]
Setting = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, eq=False)
class Method:
    """Represent one column of a table."""

    name: str  # as printed
    call: str  # what runs it: a key of `methods.CALLS`
    grid: Grid = field(default_factory=dict)  # values of each parameter; their product is searched
    quick: Grid = field(default_factory=dict)  # what those grids search instead
    coarse: Grid = field(default_factory=dict)
    repeats: int | None = None  # where they differ from the protocol's (deterministic methods)
    largest: int | None = None  # points above which it is not run

    def settings(self, extent: str = "full") -> Iterator[Setting]:
        """Yield the settings of the "full", "coarse" or "quick" grid, the kernel varying slowest."""
        instead = {"full": {}, "coarse": self.coarse, "quick": self.quick}[extent]
        grid = {**self.grid, **{k: v for k, v in instead.items() if k in self.grid}}
        names = sorted(grid, key=lambda name: name != "kernel")
        for values in itertools.product(*(grid[name] for name in names)):
            yield tuple(zip(names, values))


@dataclass(frozen=True, eq=False)
class Condition:
    """Represent one part of a paper's tables."""

    name: str  # as in the file of printed figures
    methods: tuple[Method, ...]
    measures: tuple[str, ...]  # the first one picks the best setting
    labelled: float = 0.0  # share of the training points whose label is given; 0 for clustering
    links: int = 0  # number of random pairs whose relation is given
    sets: str = ""  # the part whose sets it has, where the paper prints no figures of its own


@dataclass(frozen=True, eq=False)
class Protocol:
    """Represent the experiments of one paper."""

    paper: str
    title: str
    own: tuple[str, ...]  # the paper's own methods, which the others are compared with
    conditions: tuple[Condition, ...]
    repeats: int
    quick_repeats: int  # of the quick grid; the coarse grid has one more
    scale: str  # how `load_dataset` scales features
    readings: tuple[str, ...] = ()  # what the paper leaves open, and how it is read here

    def count(self, extent: str) -> int:
        """Return the number of repeats of a grid."""
        return {"full": self.repeats, "coarse": self.quick_repeats + 1, "quick": self.quick_repeats}[extent]

    def resolve(self, names: list[str] | None, parts: list[str] | None = None) -> list[tuple[Condition, str]]:
        """Return the pairs of condition and set to run; by default every printed set of the conditions with figures.

        ``digits pairs`` stands for all 45 pairs of the slides, and ``digits 0689`` for their "Dig 0689".
        """
        printed = printed_table(self.paper)
        for given in parts or ():
            if given not in (c.name for c in self.conditions):
                raise UnknownNameError(f"condition of {self.paper}", given, [c.name for c in self.conditions])
        listed = [(c, name) for c in self.conditions if c.name in (parts or printed.condition.unique())
                  for name in printed[printed.condition == (c.sets or c.name)].dataset.unique()]
        if names is None:
            return listed
        pairs = [(self.conditions[0], name) for name in DIGIT_PAIRS] if not parts and self.paper == "cpmmc" else []
        known: dict[str, list[tuple[Condition, str]]] = {"digits pairs": pairs} if pairs else {}
        for condition, name in dict.fromkeys(listed + pairs):
            for key in {name.lower(), name.lower().replace("dig ", "digits ")}:
                known.setdefault(key, []).append((condition, name))
        chosen: list[tuple[Condition, str]] = []
        for given in names:
            if given.lower() not in known:
                raise UnknownNameError(f"data set of {self.paper}", given, known)
            chosen += known[given.lower()]
        return list(dict.fromkeys(chosen))


_QUICK: Grid = {"kernel": ("linear", "rbf 1"), "C": (10.0,), "lam": (10.0, 100.0), "lam1": (100.0,), "lam2": (10.0,),
                "nu": (0.4,), "theta": (0.2,), "centre": (True,), "width": (0.5, 1.0), "l": (10,), "beta": (0.01,),
                "weight": (1.0,)}
_COARSE: Grid = {"lam1": (10.0, 100.0), "lam2": (10.0,), "nu": (0.4,), "theta": (0.2,), "l": (0, 10), "eta": (0.01,)}
LIMITS = {"full": 60.0, "coarse": 5.0, "quick": 2.0}  # seconds a solve, by the extent of the grid
_IMBALANCE = ("Balance 0.03 m or 0.3 m (papers: for balanced and for imbalanced sets): whichever is nearer to the true "
              "imbalance of the set, which is side information taken from the true classes. Where the imbalance is "
              "above 0.3, 0.9 m: 0.3 m would exclude the true classes, and the printed accuracies of such sets are "
              "above what it admits.")


def _method(name: str, call: str, grid: Grid | None = None, *, repeats: int | None = None, largest: int | None = None,
            quick: Grid | None = None, coarse: Grid | None = None) -> Method:
    return Method(name, call, grid or {}, {**_QUICK, **(quick or {})}, {**_COARSE, **(coarse or {})}, repeats, largest)


_KM = _method("KM", "kmeans")
_WEIGHT_AND_KERNEL: Grid = {"C": WEIGHTS, "kernel": KERNELS}
_ODM_GRID: Grid = {"lam": WEIGHTS, "nu": SHAPES, "theta": SHAPES, "centre": (True, False), "kernel": KERNELS}
_NC = _method("NC", "spectral", {"width": WIDTHS}, largest=SPECTRAL_POINTS)

_ODMC = Protocol(
    "odmc", "Optimal margin distribution clustering (AAAI 2018), Table 2", ("ODMC",),
    (Condition("unsupervised", (
        _KM, _NC, _method("GMMC", "gmmc", _WEIGHT_AND_KERNEL, largest=GMMC_POINTS, repeats=1),
        _method("IterSVR", "itersvr", _WEIGHT_AND_KERNEL), _method("CPMMC", "cpmmc", _WEIGHT_AND_KERNEL),
        _method("LG-MMC", "lgmmc", _WEIGHT_AND_KERNEL), _method("ODMC", "odmc", _ODM_GRID),
        _method("ODMC lifted", "odmc_lifted", _ODM_GRID)), ("Acc", "RI")),),
    repeats=10, quick_repeats=2, scale="minmax",
    readings=(
        "Features are scaled to [0, 1]: the paper does not say, and its k-means column is that of scaled features.",
        _IMBALANCE, "k-means is the best of ten starts.",
        "CPMMC and GMMC bound the sum of decision values by the number by which the others bound that of labels.",
        "ODMC has neither a bias nor centred features in the paper; features are centred or not, as part of the grid.",
        "ODMC lifted is the declaration of ODMC solved by weight lifting, rounding and search instead of Algorithm 1.",
        f"GMMC is run up to {GMMC_POINTS} points."))

_CPMMC = Protocol(
    "cpmmc", "Efficient maximum margin clustering (MLA 2008 slides)", ("CPMMC", "CPM3C"),
    (Condition("two-class", (
        _KM, _NC, _method("MMC", "mmc", {"C": WEIGHTS}, largest=SDP_POINTS, repeats=1),
        _method("GMMC", "gmmc", {"C": WEIGHTS}, largest=GMMC_POINTS, repeats=1),
        _method("IterSVR", "itersvr", {"C": WEIGHTS}),
        _method("CPMMC", "cpmmc", {"C": WEIGHTS, "l": (0, 5, 10, 20), "outer": ("cuts",)},
                quick={"C": (10.0, 100.0)})), ("clustering error", "CPU time")),
     Condition("multi-class", (
         _KM, _NC, _method("MMC", "mmc_of_clusters", {"C": WEIGHTS}, largest=GMMC_POINTS, repeats=1),
         _method("CPM3C", "cpm3c", {"beta": (0.001, 0.01, 0.1, 1.0), "l": (0, 5, 10, 20)})),
               ("accuracy", "Rand index", "CPU time"))),
    repeats=10, quick_repeats=2, scale="max",
    readings=(
        "MMC of more than two clusters has simplex-coded margins, and sizes within 30 % of n/k.",
        "The slides print no parameters, kernels or repeats: the grids are ours, kernels linear.",
        "CPMMC is run with the cuts outside, as in the slides; the later journal paper has the labels outside.",
        "All features are divided by the largest absolute value of the set; texts are tf-idf with rows of unit length, "
        "which is where NC and CPMMC have the printed errors (on counts they err by 50 %).",
        "The slides copy NC, MMC, GMMC and IterSVR on digits and ionosphere from an earlier paper.",
        _IMBALANCE))


def _skmmc(name: str, large: bool) -> Condition:
    bounds, unit = ((0,), 16) if large else (tuple(range(21)), 1)  # 16 ≈ √255: see the readings
    kernels = tuple(f"rbf {unit * width:g}" for width in WIDTHS)
    quick: Grid = {"l": (0,) if large else (0, 10, 20), "kernel": kernels[1:3], "skip": (0,)}
    coarse: Grid = {"l": (0,) if large else (0, 5, 10, 20), "eta": (1.0 if large else 0.01,),
                    "skip": (0,) if large else (0, 1, 2)}
    gaussian: Grid = {"C": WEIGHTS, "kernel": kernels}
    sparse: Grid = {"C": (10.0,), "eta": (1.0 if large else 0.01,), "kernel": kernels, "restarts": (3 if large else 1,),
                    "start": ("random",) if large else ("basis", "random"), "skip": (0,) if large else tuple(range(10))}
    lgmmc = _method("LG-MMC", "lgmmc", gaussian, repeats=1, largest=10000, quick=quick, coarse=coarse)
    skmmc = _method("SKMMC", "skmmc", sparse, repeats=1, quick=quick, coarse=coarse)
    cpmmc = _method("CPMMC", "cpmmc", {"C": (10.0,), "l": bounds}, repeats=1, quick=quick, coarse=coarse)
    methods = (_KM, cpmmc, lgmmc, skmmc) if large else (
        _KM, replace(_NC, repeats=1), _method("IterSVR", "itersvr", gaussian, quick=quick), cpmmc, lgmmc, skmmc,
        _method("SKMMCV2", "skmmc_v2", sparse, repeats=1, quick=quick, coarse=coarse))
    return Condition(name, methods, ("balanced error", "CPU time"))


_SKMMC = Protocol(
    "skmmc", "Sparse kernel maximum margin clustering, Tables II and V", ("SKMMC",),
    (_skmmc("UCI small scale", False), _skmmc("MNIST digit pairs", True)),
    repeats=20, quick_repeats=2, scale="none",
    readings=(
        "Features are not scaled: the paper does not say, and its k-means column is that of raw features.",
        "k-means and IterSVR are means of 20 runs, everything else of one, as in the paper.",
        "IterSVR and LG-MMC take 'the parameters of their papers', which are not repeated: C is searched over 1, 10, "
        "100, 1000.",
        "SKMMC and SKMMCV2 have l = 0: Eq. 23 sets the bias to minus the mean decision value whatever l is. The paper "
        "does not say how it picks among 5 widths and 21 l; we read its figure as the best by true classes, and the "
        "21 values of l as 21 draws. Here there are 20 random starts a width, ten of each kind.",
        "MNIST has three random starts a setting, of which the lowest objective counts.",
        "Widths for MNIST are those of pixels in [0, 1]: with pixels from 0 to 255, √255 ≈ 16 times as many √γ.",
        "The CCCP stops by its own rule; its precision (0.1, or 0.3 for large sets) is not set.", _IMBALANCE))


def _ssodm(share: int) -> Condition:
    own: Grid = {"lam1": WEIGHTS, "lam2": WEIGHTS, "nu": SHAPES, "theta": SHAPES, "centre": (True, False),
                 "kernel": KERNELS}
    sparse = ("linear", "rbf 1", "rbf 4")
    both: Grid = {"centre": (True, False)}
    others = [(name, name.lower()) for name in ("TSVM", "LapSVM", "USVM", "S4VM")]
    ours = [("ssODM", "ssodm"), ("ssODM lifted", "ssodm_lifted")]
    return Condition(
        f"{share}% labels",
        (_method("SVM", "svm", _WEIGHT_AND_KERNEL),
         *(_method(name, call, _WEIGHT_AND_KERNEL, coarse={"kernel": sparse, "C": (10.0, 1000.0)})
           for name, call in others),
         *(_method(name, call, own, quick=both, coarse={"kernel": sparse, "lam1": (1.0, 1000.0), "lam2": (1.0,)})
           for name, call in ours)),
        ("Acc",), labelled=share / 100)


_SSODM = Protocol(
    "ssodm", "Semi-supervised optimal margin distribution machines (IJCAI 2018), Table 2", ("ssODM",),
    (_ssodm(5), _ssodm(10)), repeats=10, quick_repeats=2, scale="minmax",
    readings=(
        "75 % of the points, drawn at random, are training points; 5 % or 10 % of these are labelled, at least one of "
        "each class; accuracy is that of the predicted labels of the other 25 %.",
        "Features are scaled to [0, 1] over the whole set: the paper does not say.",
        "ssODM has neither a bias nor centred features in the paper; features are centred or not, as part of the grid.",
        "The labels of ssODM are those of Algorithm 1 (100 iterations on each set of labellings) and of the published "
        "rule, then alternated with the hyperplane until no change lowers the objective.",
        "ssODM lifted is the declaration of ssODM solved by weight lifting, rounding and alternation instead.",
        "TSVM and USVM keep the recipes' weight of unlabelled points; LapSVM takes the weight of the norm that stands "
        "for C, and the recipe's weight of the manifold term."))

_ODMSSC = Protocol(
    "odmssc", "Optimal margin distribution machine for semi-supervised clustering (2022), Table 2", ("ODMSSC",),
    tuple(Condition(f"{links} constraints", (
        _method("COPKMEANS", "cop_kmeans"), _method("LCVQE", "lcvqe"),
        *(_method(name, call, {"weight": (0.1, 1.0, 10.0)}) for name, call in (
            ("PCKMEANS", "pc_kmeans"), ("MKMEANS", "mk_means"), ("MPCKMEANS", "mpc_kmeans"), ("DCC", "dcc"))),
        _method("ODMSSC", "odmssc", _ODM_GRID, quick={"centre": (True, False)})), ("RI", "FMI", "NMI"), links=links,
                    sets="100 constraints")
        for links in (100, 75, 50, 25)),
    repeats=30, quick_repeats=2, scale="minmax",
    readings=(
        "Two points are drawn 100 times; they are must-linked if of one class and cannot-linked otherwise.",
        "The paper chooses parameters by cross-validation on the measure itself, which sees the true classes, and "
        "prints no grid: ours is that of the ODMC paper, with features centred or not.",
        "MPCKMEANS learns a diagonal metric; MKMEANS a full one, and its points follow their centres.",
        "DCC has an autoencoder of one hidden layer and full batches; the paper does not say which it has.",
        "Figure 1 has 25 to 100 links and no numbers: --conditions '25 constraints,50 constraints,75 constraints'."))

PROTOCOLS = {protocol.paper: protocol for protocol in (_ODMC, _CPMMC, _SKMMC, _SSODM, _ODMSSC)}


def describe(setting: Setting) -> str:
    """Return a setting in a few words."""
    return " ".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
                    for name, value in setting)
