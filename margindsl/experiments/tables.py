"""From finished cells to a table: best setting, setting chosen without labels, printed figure, significance."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.experiments.campaign import Campaign, Part
from margindsl.experiments.cells import DONE, ERRORS, as_candidate, load_for
from margindsl.experiments.choice import RULES, Rule
from margindsl.experiments.figures import Figure
from margindsl.experiments.protocols import DIGIT_PAIRS, Method, Setting, describe

LEVEL = 0.05
DEFAULT_RULE = "agreement"
_PAIRS_CONDITION = "two-class mean over 45 digit pairs"

Record = dict[str, Any]
Runs = dict[Setting, dict[int, Record]]  # setting -> repeat -> record


@dataclass(frozen=True)
class Summary:
    """Represent a mean over repeats.

    Parameters
    ----------
    setting : str
        In a few words; several where repeats chose differently.
    """

    mean: float
    std: float
    setting: str = ""
    scores: tuple[tuple[int, float], ...] = ()  # (repeat, score)

    @classmethod
    def of(cls, scores: dict[int, float], setting: str = "") -> Summary:
        """Return mean and sample deviation (0 for one repeat)."""
        values = np.array(list(scores.values()))
        return cls(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0, setting,
                   tuple(sorted(scores.items())))


@dataclass(frozen=True)
class Entry:
    """Represent one data set, measure and method.

    Parameters
    ----------
    oracle : Summary or None
        Best setting by the first measure of the condition: chosen by the true classes.
    honest : Summary or None
        Setting chosen without labels.
    verdict : {"win", "tie", "loss", ""}
        The paper's own method against this one, both at their best settings.
    cells, failures, limited : int
        Finished cells, cells without an answer, and solves stopped by the time limit.
    seconds : float
        Mean of a cell.
    """

    condition: str
    dataset: str
    measure: str
    method: str
    n: int
    d: int
    oracle: Summary | None = None
    honest: Summary | None = None
    printed: Figure | None = None
    verdict: str = ""
    p_value: float = float("nan")
    cells: int = 0
    failures: int = 0
    limited: int = 0
    seconds: float = float("nan")
    note: str = ""

    @property
    def difference(self) -> float:
        """Return ours at the best setting minus the paper's figure; NaN where one is missing."""
        return self.oracle.mean - self.printed.mean if self.oracle and self.printed else float("nan")

    @property
    def honest_difference(self) -> float:
        """Return ours chosen without labels minus the paper's figure; NaN where one is missing."""
        return self.honest.mean - self.printed.mean if self.honest and self.printed else float("nan")


@dataclass(frozen=True)
class Table:
    """Represent the results of a run.

    Parameters
    ----------
    rule : str
        Of the choice without labels.
    """

    campaign: Campaign
    rule: str
    entries: tuple[Entry, ...]
    skipped: tuple[tuple[str, str, str], ...] = field(default=())  # (condition, data set, sentence)

    def tally(self, condition: str, measure: str, method: str) -> tuple[int, int, int]:
        """Return on how many sets the paper's own method wins, ties and loses against a method."""
        verdicts = [e.verdict for e in self.entries
                    if (e.condition, e.measure, e.method) == (condition, measure, method)]
        return verdicts.count("win"), verdicts.count("tie"), verdicts.count("loss")


def tabulate(campaign: Campaign, records: Iterable[Record], rule: Rule | None = None) -> Table:
    """Return the table of what is finished so far.

    Parameters
    ----------
    records : iterable of dict
        Of a journal.
    rule : Rule, optional
        Default "agreement".
    """
    rule = rule or RULES[DEFAULT_RULE]
    grouped: dict[tuple[str, str, str], list[Record]] = {}
    for record in campaign.latest(records):
        grouped.setdefault((record["condition"], record["dataset"], record["method"]), []).append(record)
    entries: list[Entry] = []
    for part in campaign.parts:
        if not part.skipped:
            entries += _part_entries(campaign, part, grouped, _rule_for(campaign, part, rule))
    entries += _pair_means(campaign, entries)
    skipped = tuple((p.condition.name, p.dataset, p.note) for p in campaign.parts if p.skipped)
    return Table(campaign, rule.name, tuple(entries), skipped)


def _rule_for(campaign: Campaign, part: Part, rule: Rule) -> Rule:
    """Return the rule on the points of a set, where it looks at them."""
    if rule.for_points is None or part.condition.labelled:
        return rule
    data = load_for(campaign.protocol.paper, part.dataset, campaign.conduct)
    return replace(rule, select=rule.for_points(data.X))


def _part_entries(campaign: Campaign, part: Part, grouped: dict[tuple[str, str, str], list[Record]],
                  rule: Rule) -> list[Entry]:
    found: list[Entry] = []
    run = {m.name for m in campaign.methods(part)}
    printed_only = _printed_methods(campaign, part)
    for method in part.condition.methods:
        records = grouped.get((part.condition.name, part.dataset, method.name), [])
        note = part.note if method.name in run else _left_out(campaign, method)
        found += _method_entries(campaign, part, method, records, rule, note)
    for name in printed_only:
        found += _method_entries(campaign, part, Method(name, ""), [], rule, "not run: the paper's figure alone")
    own = {e.measure: e for e in found if e.method in campaign.protocol.own}
    return [_compared(entry, own.get(entry.measure)) for entry in found]


def _left_out(campaign: Campaign, method: Method) -> str:
    if campaign.only is not None and method.name not in campaign.only:
        return "not asked for"
    return f"not run above {method.largest} points"


def _printed_methods(campaign: Campaign, part: Part) -> list[str]:
    ours = {method.name for method in part.condition.methods}
    names = [method for (measure, condition, dataset, method) in campaign.protocol.printed.figures
             if condition == part.condition.name and dataset == part.dataset and measure in part.condition.measures]
    return [name for name in dict.fromkeys(names) if name not in ours]


def _method_entries(campaign: Campaign, part: Part, method: Method, records: list[Record], rule: Rule,
                    note: str) -> list[Entry]:
    order = {setting: k for k, setting in enumerate(method.settings(campaign.extent))}
    runs = collect_runs([r for r in records if r["status"] == DONE], order)
    failures = [r for r in records if r["status"] != DONE]
    if failures:
        note = "; ".join(filter(None, (note, f"{len(failures)} cells without an answer: {failures[-1]['message']}")))
    best = best_setting(runs, part.condition.measures[0])
    entries = []
    for measure in part.condition.measures:
        entries.append(Entry(
            part.condition.name, part.dataset, measure, method.name, part.n, part.d,
            None if best is None else Summary.of(_scores(runs[best], measure), describe(best)),
            summarise_choice(runs, measure, rule),
            campaign.protocol.printed.figure(measure, part.condition.name, part.dataset, method.name),
            cells=sum(map(len, runs.values())), failures=len(failures),
            limited=sum(r["state"] == "time_limit" for repeats in runs.values() for r in repeats.values()),
            seconds=float(np.mean([r["seconds"] for r in records])) if records else float("nan"), note=note))
    return entries


def collect_runs(records: Iterable[Record], order: dict[Setting, int] | None = None) -> Runs:
    """Return finished records by setting and repeat, settings in the order of the grid."""
    runs: Runs = {}
    for record in records:
        setting = tuple((name, value) for name, value in record["setting"])
        runs.setdefault(setting, {})[record["repeat"]] = record
    place = order or {}
    return dict(sorted(runs.items(), key=lambda item: place.get(item[0], len(place))))


def best_setting(runs: Runs, measure: str) -> Setting | None:
    """Return the setting of the best mean score over repeats, the first among equals; None without runs.

    Settings with fewer repeats than others (a run not yet finished) are left out. The choice sees the true classes,
    as the papers' "best parameter setting" does.
    """
    if not runs:
        return None
    most = max(map(len, runs.values()))
    sign = -1.0 if measure in ERRORS else 1.0
    means = {setting: sign * np.mean(list(_scores(repeats, measure).values()))
             for setting, repeats in runs.items() if len(repeats) == most}
    return max(means, key=lambda setting: means[setting])


def summarise_choice(runs: Runs, measure: str, rule: Rule) -> Summary | None:
    """Return the scores of the settings a rule chooses without labels; None without runs.

    A rule that needs objectives or margins cannot choose among labellings of a baseline that has none: these are
    chosen by agreement.
    """
    if not runs:
        return None
    valued = any("value" in record for repeats in runs.values() for record in repeats.values())
    if not valued and rule.for_points is None:
        rule = RULES["agreement"]
    settings = list(runs)
    repeats = sorted({repeat for found in runs.values() for repeat in found})
    if rule.across_repeats:
        candidates = [[as_candidate(r) for _, r in sorted(runs[s].items())] for s in settings]
        chosen = settings[_checked(rule.select(candidates), settings, rule)]
        return Summary.of(_scores(runs[chosen], measure), describe(chosen))
    scores, names = {}, []
    for repeat in repeats:
        present = [s for s in settings if repeat in runs[s]]
        index = rule.select([as_candidate(runs[s][repeat]) for s in present])
        chosen = present[_checked(index, present, rule)]
        scores[repeat] = float(runs[chosen][repeat]["scores"][measure])
        names.append(describe(chosen))
    return Summary.of(scores, " | ".join(dict.fromkeys(names)))


def _checked(index: int, settings: Sequence[Setting], rule: Rule) -> int:
    if not 0 <= index < len(settings):
        raise DeclarationError(f"rule {rule.name!r} chose number {index} of {len(settings)} candidates; a rule returns "
                               "an index from 0")
    return int(index)


def _scores(repeats: dict[int, Record], measure: str) -> dict[int, float]:
    return {repeat: float(record["scores"][measure]) for repeat, record in repeats.items()}


def _compared(entry: Entry, own: Entry | None) -> Entry:
    if own is None or own.method == entry.method or own.oracle is None or entry.oracle is None:
        return entry
    mine, theirs = dict(own.oracle.scores), dict(entry.oracle.scores)
    common = sorted(mine.keys() & theirs.keys())
    if len(common) < 2:
        return entry
    verdict, p_value = paired_test([mine[r] for r in common], [theirs[r] for r in common],
                                   less_is_better=entry.measure in ERRORS)
    return replace(entry, verdict=verdict, p_value=p_value)


def paired_test(own: Sequence[float], other: Sequence[float], *, less_is_better: bool = False) -> tuple[str, float]:
    """Return "win", "tie" or "loss" of the first by a paired two-sided t-test at 5 %, and the p-value.

    Equal scores in every repeat are a tie (p = 1), a constant difference is significant (p = 0): the limits of the
    test as the deviation of the differences goes to zero.

    Examples
    --------
    >>> paired_test([0.9, 0.8, 0.9], [0.5, 0.5, 0.4])[0], paired_test([0.9, 0.8], [0.9, 0.8])
    ('win', ('tie', 1.0))
    """
    from scipy.stats import ttest_rel

    difference = np.asarray(own, dtype=float) - np.asarray(other, dtype=float)
    if np.ptp(difference) <= 1e-12:
        p_value = 0.0 if abs(difference[0]) > 1e-12 else 1.0
    else:
        p_value = float(ttest_rel(own, other).pvalue)
    if p_value >= LEVEL:
        return "tie", p_value
    return ("win" if (difference.mean() < 0) == less_is_better else "loss"), p_value


def _pair_means(campaign: Campaign, entries: list[Entry]) -> list[Entry]:
    """Return the row "UCI digits", the mean over the 45 pairs, once all of them are there."""
    found = []
    for method in dict.fromkeys(e.method for e in entries if e.dataset in DIGIT_PAIRS):
        pairs = [e for e in entries if e.dataset in DIGIT_PAIRS and e.method == method]
        if len(pairs) < len(DIGIT_PAIRS) or any(e.oracle is None or e.honest is None for e in pairs):
            continue
        means = [[getattr(e, name).mean for e in pairs] for name in ("oracle", "honest")]
        worst = [f"worst pair {pairs[int(np.argmax(m))].dataset.removeprefix('Digits ')}: {max(m):.2f}" for m in means]
        found.append(replace(
            pairs[0], dataset="UCI digits", n=1797, oracle=Summary(float(np.mean(means[0])), 0.0, worst[0]),
            honest=Summary(float(np.mean(means[1])), 0.0, worst[1]),
            printed=campaign.protocol.printed.figure(pairs[0].measure, _PAIRS_CONDITION, "UCI digits", method),
            verdict="", p_value=float("nan"), cells=sum(e.cells for e in pairs),
            failures=sum(e.failures for e in pairs), limited=sum(e.limited for e in pairs),
            note="mean over the 45 pairs"))
    return found


_COLUMNS: dict[str, Callable[[Entry], Any]] = {
    **{name: attrgetter(name) for name in ("condition", "dataset", "n", "d", "measure", "method")},
    "ours_best_by_true_classes": lambda e: e.oracle and e.oracle.mean,
    "ours_best_std": lambda e: e.oracle and e.oracle.std,
    "ours_best_setting": lambda e: e.oracle and e.oracle.setting,
    "ours_chosen_without_labels": lambda e: e.honest and e.honest.mean,
    "ours_chosen_std": lambda e: e.honest and e.honest.std,
    "ours_chosen_setting": lambda e: e.honest and e.honest.setting,
    "paper": lambda e: e.printed and e.printed.mean, "paper_std": lambda e: e.printed and e.printed.std,
    "difference_best": lambda e: e.difference, "difference_chosen": lambda e: e.honest_difference,
    "repeats": lambda e: e.oracle and len(e.oracle.scores),
    **{name: attrgetter(name)
       for name in ("verdict", "p_value", "cells", "failures", "limited", "seconds", "note")}}


def write_csv(table: Table, path: str | Path) -> None:
    """Write one row an entry, and one for every set that was skipped."""
    rows = [[_cell(read(entry)) for read in _COLUMNS.values()] for entry in table.entries]
    for condition, dataset, sentence in table.skipped:
        given = {"condition": condition, "dataset": dataset, "note": sentence}
        rows.append([given.get(name, "") for name in _COLUMNS])
    try:
        with open(path, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(_COLUMNS)
            writer.writerows(rows)
    except OSError as error:
        raise DeclarationError(f"cannot write {path}: {error.strerror}") from None


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value
