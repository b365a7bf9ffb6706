"""Printed LaTeX says what the formula is: it is read again and gives the value of the objective."""

import functools
import re

import numpy as np
import pytest

import margindsl as md
from margindsl.language.printing import latex_name, number_latex

N = 8
TOKEN = re.compile(r"\\left\\?.|\\right\\?.|\\[a-zA-Z]+|\\.|\d+\.?\d*(?:e-?\d+)?|\.\d+|[a-zA-Z]|\S")
WORDS = {"logistic": lambda x: np.logaddexp(0, x)}


class Reader:
    """Evaluate LaTeX by the usual rules: a product binds before a sum, and a sum sign takes the product after it."""

    def __init__(self, text, values):
        self.tokens, self.at, self.values, self.index = TOKEN.findall(text), 0, values, None

    @property
    def next(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *expected):
        token = self.next
        assert not expected or token in expected, (token, expected, self.tokens[self.at:])
        self.at += 1
        return token

    def group(self):
        if self.next != "{":
            return self.take()
        self.take("{")
        start, depth = self.at, 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.take(), 0)
        return " ".join(self.tokens[start:self.at - 1])

    def inner(self, text):
        reader = Reader(text, self.values)
        reader.index = self.index
        return reader.whole()

    def whole(self):
        value = self.sum()
        assert not self.next, self.tokens[self.at:]
        return value

    def sum(self):
        value = -self.product() if self.next == "-" and self.take() else self.product()
        while self.next in ("+", "-"):
            value = value + self.product() if self.take() == "+" else value - self.product()
        return value

    def product(self):
        value = self.factor()
        while self.next not in ("", "+", "-", ",", ";") and not self.next.startswith(r"\right"):
            if self.next in (r"\,", r"\cdot"):
                self.take()
            value = value * self.factor()
        return value

    def factor(self):
        value = self.atom()
        plus = self.next == "_" and self.take() and self.take("+")
        value = np.maximum(value, 0) if plus else value
        if self.next == "^":
            self.take()
            value = value ** float(self.group())
        return value

    def atom(self):
        token = self.take()
        if token[0].isdigit():
            power = self.next == r"\cdot" and self.tokens[self.at + 1:self.at + 3] == ["10", "^"]
            if not power:
                return float(token)
            self.at += 3
            return float(f"{token}e{self.group().replace(' ', '')}")
        if token == "-":
            return -self.factor()
        if token == r"\frac":
            top, bottom = self.group(), self.group()
            return self.inner(top) / self.inner(bottom)
        if token == r"\sum":
            self.take("_")
            assert self.group() in ("i", "i = 0")
            last = self.group() if self.next == "^" and self.take() else N - 1
            before, self.index = self.index, np.arange(int(last) + 1)
            value = self.product()
            self.index = before
            return np.sum(value)
        if token.startswith(r"\left"):
            value = self.sum()
            self.take(r"\right)", r"\right|")
            return abs(value) if token.endswith("|") else value
        if token == r"\max":
            self.take(r"\left(")
            values = [self.sum()]
            while self.next == ",":
                self.take()
                values.append(self.sum())
            self.take(r"\right)")
            return functools.reduce(np.maximum, values)
        if token == r"\|":
            return self.norm()
        if token == r"\operatorname":
            assert self.group().replace(" ", "") == "var"
            self.take("_"), self.take("i")
            before, self.index = self.index, np.arange(N)
            value = np.broadcast_to(self.atom(), N)
            self.index = before
            return np.var(value)
        fonts = (r"\mathrm", r"\mathbf", r"\mathcal")
        name = rf"{token}{{{self.group().replace(' ', '')}}}" if token in fonts else token
        return self.symbol(name)

    def norm(self):
        name = self.take()
        self.take(r"\|"), self.take("^"), self.take("2")
        return self.values[f"|{name}|^2"]

    def symbol(self, name):
        if name.startswith(r"\mathrm{") and name[8:-1] in WORDS:
            return WORDS[name[8:-1]](self.atom())
        if self.next == "^" and self.tokens[self.at + 1] == "{" and self.tokens[self.at + 2] == "(":
            self.take()
            name = f"{name}^{self.group().replace(' ', '')}"
        value = self.values[name]
        if np.ndim(value) == 0:
            return value
        self.take("_")
        return np.asarray(value)[np.asarray(self.place(self.group()), dtype=int)]

    def place(self, text):
        if "mathcal" in text:
            return self.inner(text)
        first, _, last = text.replace(" ", "").rpartition("+")
        return (self.index if last == "i" else int(last)) + int(first or 0)


def labels_and_plane():
    X = np.random.default_rng(0).normal(size=(N, 2))
    return md.Labels(N), md.Hyperplane(X)


A, B = np.linspace(0.5, 1.2, N), np.array([0.1, 2.0, 0.7])
FORMULAS = {
    "sums in a mean": lambda g, s, lam: md.mean(1 - g + md.pos(0.3 - g)),
    "mean of a difference": lambda g, s, lam: lam * md.mean(md.pos(1 - g) - g / 2),
    "small and long numbers": lambda g, s, lam: 2.5e-7 * md.sum(md.pos(0.123456789 - g)) + 1e8 * s,
    "arrays told apart": lambda g, s, lam: md.sum(A * md.pos(1 - g)) + md.mean(A[::-1].copy() * md.pos(A - g)),
    "a slice": lambda g, s, lam: md.sum(md.pos(1 - g[2:6])) / 3,
    "a list of points": lambda g, s, lam: md.sum(B * md.pos(1 - g[[5, 0, 3]])) + md.mean(md.pos(g[[7, 1]] - 1)),
    "one point": lambda g, s, lam: md.pos(1 - g[3]) + md.sum(md.pos(g - 2)),
    "a slice of a list": lambda g, s, lam: md.sum(md.pos(1 - g[[6, 2, 4, 1]][1:3])),
    "maxima and moduli": lambda g, s, lam: md.mean(md.maximum(1 - g, 0.5 - 0.5 * g, 0)) + md.sum(abs(g - s)) / 4,
    "squares": lambda g, s, lam: md.mean(md.pos(1 - 0.2 - g) ** 2 + 0.4 * md.pos(g - 1 - 0.2) ** 2) / (1 - 0.2) ** 2,
    "a quotient of a sum": lambda g, s, lam: (md.sum(md.pos(1 - g)) + lam * md.mean(md.square(g - 1))) / (2 * lam),
    "negations": lambda g, s, lam: -(0 - md.mean(md.logistic(-(g - 0.1)))) - md.sum(0.1 * g),
    "a variance": lambda g, s, lam: md.var(2 * g - 1) - 0.5 * md.mean(g),
    "shared scalars": lambda g, s, lam: lam * md.mean(md.pos(s - g)) - s}


@pytest.mark.parametrize("name", FORMULAS)
def test_what_is_printed_has_the_value_of_what_was_declared(name):
    y, f = labels_and_plane()
    lam, s = md.Parameter(0.75, name="lam"), md.Scalar(name="s", nonneg=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + FORMULAS[name](y * f, s, lam)))
    program, rng = problem.program(), np.random.default_rng(1)
    labels, w = np.where(rng.normal(size=N) > 0, 1, -1), rng.normal(size=program.features.rank)
    decision = program.features.apply(w)
    shared = np.full(program.losses.scalars.count, 0.4)
    if name == "a variance":
        shared[:] = np.mean(2 * labels * decision - 1)  # where the least over its scalar is
    values = {"y": labels, "f": decision, r"\lambda": 0.75, "s": 0.4, "|f|^2": float(w @ w), r"\mathbf{c}": A,
              r"\mathbf{c}^(2)": A[::-1]}
    if name == "arrays told apart":
        values[r"\mathbf{c}^(3)"] = A
    if name == "a list of points":
        values |= {r"\mathbf{c}": B, r"\mathcal{I}": [5, 0, 3], r"\mathcal{I}^(2)": [7, 1]}
    values.setdefault(r"\mathcal{I}", [6, 2, 4, 1])
    printed = problem._latex_rows()[0][1]
    value = program.objective((labels + 1) // 2, w, 0.0, shared)
    assert Reader(printed, values).whole() == pytest.approx(value, rel=1e-12), printed
    assert problem.objective._repr_latex_() == rf"$\min \; {printed}$"


@pytest.mark.parametrize("value, shown", [
    (2.5e-7, r"2.5 \cdot 10^{-7}"), (3.0, "3"), (0.1 + 0.2, "0.3"), (1 / 3, "0.3333333333333333"),
    (1e22, r"1 \cdot 10^{22}"),
    (-4, "-4")])
def test_numbers_are_printed_in_full_but_for_rounding(value, shown):
    assert number_latex(value) == shown


@pytest.mark.parametrize("name", ["a_b", "50%", "a&b", "#1", "{x}", "a^b", r"a\b", "two words", "<b>", "~", "$"])
def test_names_of_any_characters_are_latex(name):
    shown = latex_name(name)
    assert shown.count("{") - shown.count(r"\{") == shown.count("}") - shown.count(r"\}")
    assert not re.search(r"(?<!\\)[_&%#$~]|(?<!\\hat\{\\ )\^(?!\{\})|(?<!\\hat)\^", shown.replace(r"\hat{\ }", ""))


def test_entries_of_one_point_and_arrays_as_a_whole():
    y, f = labels_and_plane()
    assert y._repr_latex_() == "$y$" and (1 - y * f)._repr_latex_() == "$1 - y_i f_i$"
    assert (abs(md.sum(y)) <= 2)._repr_latex_() == r"$\left|\sum_i y_i\right| \le 2$"
    assert (y[1] == y[4])._repr_latex_() == "$y_1 = y_4$"
    assert (y[[0, 3]] == [1, -1])._repr_latex_() == r"$y_0 = 1,\ y_3 = -1$"


def test_everything_says_in_one_line_what_it_is():
    y, f = labels_and_plane()
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0])
    table, found = md.compare(problem, ["alternating", "supervised"]), md.certify(problem, np.repeat([0, 1], N // 2))
    shown = [problem, problem.objective, problem.constraints[0], problem.compile("sdp"), table, *table.rows,
             table.best(), found, y, f, y * f, md.Parameter(2.0), md.SDP(), md.Solver("scs"), md.RBF(1.0)]
    for one in shown:
        assert "\n" not in repr(one) and " at 0x" not in repr(one) and len(repr(one)) < 600, repr(one)
    assert repr(problem).startswith(f"Problem({N} points, 2 clusters, 1 constraint, minimise md.sq_norm(f) / 2")


def test_notebooks_are_shown_escaped_html():
    y, f = labels_and_plane()
    evil = md.Parameter(2.0, name="<script>x</script>")
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + evil * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0])
    table, found = md.compare(problem, ["alternating"]), md.certify(problem, np.repeat([0, 1], N // 2))
    for one in (problem.compile("sdp"), table, table.best(), found):
        shown = one._repr_html_()
        assert "<script" not in shown and shown.count("<table") + shown.count("<details") and shown.startswith("<")
    assert "&lt;script&gt;" in problem.compile("sdp")._repr_html_()
