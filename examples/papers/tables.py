"""From finished cells to a table: best setting, setting chosen without labels, printed figure, significance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from cells import ERRORS, SECONDS
from data import printed_table
from protocols import DIGIT_PAIRS, Protocol, describe
from scipy.stats import ttest_rel
from tabulate import tabulate

import margindsl as md
from margindsl.metrics import clustering_accuracy

LEVEL = 0.05
LEGEND = ("Each cell: ours at the best setting, chosen by the true classes as the papers do (an oracle's choice); "
          "ours at the setting chosen without labels; the paper's figure. CPU times are multiples of that of the "
          "paper's own method.")
Record = dict[str, Any]


def disagreement(records: Sequence[Record]) -> np.ndarray:
    """Return the matrix of shares of points in different clusters, under the best matching."""
    found = [np.array(list(record["labels"]), dtype=int) for record in records]
    if max(codes.max() for codes in found) <= 1:
        signs = 2.0 * np.stack(found) - 1.0
        return (1.0 - np.abs(signs @ signs.T) / signs.shape[1]) / 2.0
    return np.array([[1.0 - clustering_accuracy(a, b) for b in found] for a in found])


def _least(scores: Any) -> int:
    """Return the index of the least number, the first among equals; NaN counts as worst."""
    scores = np.asarray(scores, dtype=float)
    return int(np.argmin(np.where(np.isnan(scores), np.inf, scores)))


def agreement(records: Sequence[Record]) -> int:
    """Choose the medoid: the labelling that disagrees least, on average, with the others."""
    return _least(disagreement(records).mean(axis=1))


def least_objective(records: Sequence[Record]) -> int:
    """Choose the least objective relative to that of the zero hyperplane."""
    return _least([r["value"] / r["null"] if r["null"] > 0 else np.nan for r in records])


def margin_ratio(records: Sequence[Record]) -> int:
    """Choose the greatest mean margin per standard deviation."""
    return _least([-r["margin_mean"] / np.sqrt(r["margin_variance"]) if r["margin_variance"] > 0 else np.nan
                   for r in records])


def certified_gap(records: Sequence[Record]) -> int:
    """Choose the least certified gap; the first where none has one."""
    return _least([r["gap"] for r in records])


# Rules see labellings, objectives, margins and gaps, never the classes. "stability" chooses one setting for all
# repeats; "held-out" looks at the points too, where labels are chosen for all of them.
RULES: dict[str, Callable[[Sequence[Record]], int] | None] = {
    "agreement": agreement, "certified-gap": certified_gap, "least-objective": least_objective,
    "margin-ratio": margin_ratio, "stability": None, "held-out": None}


def held_out(X: np.ndarray) -> Callable[[Sequence[Record]], int]:
    """Return the rule that picks the labelling whose held-out margins ODM problems of five kernels predict best."""
    def rule(records: Sequence[Record]) -> int:
        found = [np.array(list(record["labels"]), dtype=int) for record in records]
        clusters = max(2, *(int(codes.max()) + 1 for codes in found))
        return md.select(md.judges_of(X, clusters), found if clusters > 2 else [2 * codes - 1 for codes in found])

    return rule


def choose(runs: dict[Any, dict[int, Record]], rule: str, X: np.ndarray | None) -> dict[int, Any]:
    """Return the setting a rule chooses without labels in every repeat; what has no objective is chosen by agreement.

    Parameters
    ----------
    runs : dict
        Setting to repeat to record.
    rule : str
    X : (n, d) array or None
        The points, where labels are chosen for all of them.
    """
    settings, repeats = list(runs), sorted({repeat for found in runs.values() for repeat in found})
    if rule == "stability":
        spread = [disagreement(list(found.values())).mean() if len(found) > 1 else np.nan for found in runs.values()]
        return {repeat: settings[_least(spread)] for repeat in runs[settings[_least(spread)]]}
    valued = all("value" in record for found in runs.values() for record in found.values())
    select = (held_out(X) if rule == "held-out" and X is not None else RULES[rule] if valued else None) or agreement
    chosen = {}
    for repeat in repeats:
        present = [setting for setting in settings if repeat in runs[setting]]
        chosen[repeat] = present[select([runs[setting][repeat] for setting in present])]
    return chosen


def paired_test(own: Sequence[float], other: Sequence[float], less_is_better: bool = False) -> tuple[str, float]:
    """Return "win", "tie" or "loss" of the first by a paired two-sided t-test at 5 %, and the p-value.

    Equal scores in every repeat are a tie (p = 1), a constant difference is significant (p = 0): the limits of the
    test as the deviation of the differences goes to zero.
    """
    difference = np.asarray(own, dtype=float) - np.asarray(other, dtype=float)
    if np.ptp(difference) <= 1e-12:
        p_value = 0.0 if abs(difference[0]) > 1e-12 else 1.0
    else:
        p_value = float(ttest_rel(own, other).pvalue)
    if p_value >= LEVEL:
        return "tie", p_value
    return ("win" if (difference.mean() < 0) == less_is_better else "loss"), p_value


def tabulated(protocol: Protocol, parts: Sequence[Any], records: Iterable[Record], extent: str, rule: str
              ) -> pd.DataFrame:
    """Return one row a condition, data set, measure and method; printed figures of methods that are not run, too.

    Parameters
    ----------
    protocol : Protocol
    parts : sequence
        Objects with the `condition`, `dataset` (as printed), `data` (None where it is skipped) and `note` of each set.
    records : iterable of dict
        The last record of every cell.
    extent, rule : str
    """
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault((record["condition"], record["dataset"], record["method"]), []).append(record)
    printed = printed_table(protocol.paper).set_index(["measure", "condition", "dataset", "method"])[["mean", "std"]]
    rows = []
    for part in parts:
        condition, place = part.condition, {"condition": part.condition.name, "dataset": part.dataset}
        if part.data is None:
            rows.append({**place, "note": part.note})
            continue
        X = None if condition.labelled else part.data.X
        for method in condition.methods:
            own = groups.get((condition.name, part.dataset, method.name), [])
            order = {setting: k for k, setting in enumerate(method.settings(extent))}
            runs: dict[Any, dict[int, Record]] = {}
            for record in own:
                if record["status"] == "done":
                    runs.setdefault(tuple(map(tuple, record["setting"])), {})[record["repeat"]] = record
            runs = dict(sorted(runs.items(), key=lambda item: order.get(item[0], len(order))))
            failed = [record["message"] for record in own if record["status"] != "done"]
            notes = [part.note, f"{len(failed)} cells without an answer: {failed[-1]}" if failed else "",
                     "" if own else "not run"]
            chosen = choose(runs, rule, X) if runs else {}
            # Best by the first measure, of the settings with most repeats: the choice sees the true classes.
            most = max(map(len, runs.values()), default=0)
            sign = -1.0 if condition.measures[0] in ERRORS else 1.0
            best = max((setting for setting in runs if len(runs[setting]) == most), default=None, key=lambda s: sign
                       * np.mean([record["scores"][condition.measures[0]] for record in runs[s].values()]))
            for measure in condition.measures:
                ours = {} if best is None else {r: record["scores"][measure] for r, record in runs[best].items()}
                honest = [runs[setting][repeat]["scores"][measure] for repeat, setting in chosen.items()]
                rows.append({
                    **place, "measure": measure, "method": method.name, "n": len(part.data.X),
                    "best": _mean(ours.values()), "best_std": _deviation(ours.values()),
                    "best_setting": "" if best is None else describe(best), "scores": ours, "chosen": _mean(honest),
                    "chosen_std": _deviation(honest),
                    "chosen_setting": " | ".join(dict.fromkeys(map(describe, chosen.values()))), "repeats": len(ours),
                    "cells": len(own), "failures": len(failed), "seconds": _mean(r["seconds"] for r in own),
                    "limited": sum(r.get("state") == "time_limit" for r in own),
                    "note": "; ".join(filter(None, notes))})
        others = {method for measure, c, d, method in printed.dropna(subset="mean").index
                  if (c, d) == (condition.name, part.dataset) and measure in condition.measures}
        rows += [{**place, "measure": measure, "method": name, "n": len(part.data.X),
                  "note": "not run: the paper's figure alone"} for measure in condition.measures
                 for name in sorted(others - {method.name for method in condition.methods})]
    table = pd.DataFrame(rows)
    if "method" not in table:
        return table
    table = pd.concat([table, pd.DataFrame(_pair_means(table))], ignore_index=True)
    keys = list(table[["measure", "condition", "dataset", "method"]].itertuples(index=False, name=None))
    figures = printed.reindex(pd.MultiIndex.from_tuples(keys))
    table["paper"], table["paper_std"] = figures["mean"].to_numpy(), figures["std"].to_numpy()
    for _, block in table[table.measure == SECONDS].groupby(["condition", "dataset"]):
        own = block[block.method.isin(protocol.own)].iloc[0]
        for name in ("best", "chosen", "paper"):
            table.loc[block.index, [name, f"{name}_std"]] /= own[name]
    return _tested(table, protocol)


def _tested(table: pd.DataFrame, protocol: Protocol) -> pd.DataFrame:
    """Add the verdict of the paper's own method against every other one, both at their best settings."""
    verdicts = []
    for row in table.itertuples():
        same = (table.condition == row.condition) & (table.dataset == row.dataset) & (table.measure == row.measure)
        own = table[same & table.method.isin(protocol.own)]
        mine = own.scores.iloc[0] if len(own) and row.method not in protocol.own else {}
        theirs = row.scores if isinstance(row.scores, dict) else {}
        common = sorted(mine.keys() & theirs.keys()) if isinstance(mine, dict) else []
        verdicts.append(paired_test([mine[r] for r in common], [theirs[r] for r in common], row.measure in ERRORS)
                        if len(common) > 1 else ("", np.nan))
    table["verdict"], table["p_value"] = zip(*verdicts)
    return table.drop(columns="scores")


def _pair_means(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the row "UCI digits" of the slides, the mean over the 45 pairs, once all of them are there."""
    pairs = table[table.dataset.isin(DIGIT_PAIRS)].dropna(subset=["best", "chosen"])
    return [{"condition": "two-class mean over 45 digit pairs", "dataset": "UCI digits",
             "measure": found.measure.iloc[0], "method": method, "n": 1797,
             "best": found.best.mean(), "chosen": found.chosen.mean(),
             "best_setting": f"worst pair {found.dataset[found.best.idxmax()].removeprefix('Digits ')}: "
                             f"{found.best.max():.2f}", "note": "mean over the 45 pairs"}
            for (_, method), found in pairs.groupby(["measure", "method"], sort=False)
            if len(found) == len(DIGIT_PAIRS)]


def as_text(table: pd.DataFrame) -> str:
    """Return the table as aligned text, best / chosen without labels / paper, with wins, ties, losses and notes."""
    lines = []
    if "method" in table:
        for (condition, measure), block in table.dropna(subset="method").groupby(["condition", "measure"], sort=False):
            digits = 2 if measure in (*ERRORS, "accuracy") else 3
            figures = block[["best", "chosen", "paper"]].to_numpy(float)
            cells = [" / ".join("–" if np.isnan(v) else f"{v:.{digits}f}" for v in row) for row in figures]
            shown = block.assign(cell=cells).pivot(index="dataset", columns="method", values="cell")
            shown = shown.loc[block.dataset.unique(), block.method.unique()].fillna("")
            tally = {method: "/".join(str(sum(found.verdict == word)) for word in ("win", "tie", "loss"))
                     for method, found in block.groupby("method") if any(found.verdict != "")}
            if tally:
                shown.loc["w/t/l"] = pd.Series(tally).reindex(shown.columns).fillna("")
            lines += ["", f"{condition}, {measure}",
                      tabulate(shown, list(shown.columns), "plain", disable_numparse=True)]
    notes = [f"{row.dataset} ({row.condition})" + (f", {row.method}" if isinstance(row.get("method"), str) else "")
             + f": {row.note}" for _, row in table.iterrows() if row.note]
    if "limited" in table:
        notes += [f"{row.dataset} ({row.condition}), {row.method}: {row.limited:g} of {row.cells:g} solves were "
                  "stopped by the time limit" for row in table[table.limited > 0].itertuples()]
    return "\n".join([*lines, "", *dict.fromkeys(notes)])


def _mean(values: Any) -> float:
    values = list(values)
    return float(np.mean(values)) if values else np.nan


def _deviation(values: Any) -> float:
    values = list(values)
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0 if values else np.nan
