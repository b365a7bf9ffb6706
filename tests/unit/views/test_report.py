"""The page of an answer: whole, escaped, about this answer; and the sentences that say how to read one."""

import html.parser
import re

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Status
from margindsl.errors import DeclarationError
from margindsl.views import reading

VOID = {"meta", "link", "br", "path", "use", "image", "rect", "line", "circle", "stop", "mspace"}
HOSTILE = "<script>alert(1)</script>&amp;\"'"


class Page(html.parser.HTMLParser):
    """Read a page: its elements, its text, the addresses it names; every element must be closed."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.text, self.addresses, self.open = [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("href", "src", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("href", "src", "xlink:href")]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def problem_of(n=20, clusters=2, name="lam"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)) + 4.0 * rng.normal(size=(clusters, 2))[np.arange(n) % clusters]
    y, f, lam = md.Labels(n, clusters), md.Hyperplane(X), md.Parameter(3.0, name=name)
    margins = y * f if clusters == 2 else md.margin(y, f)
    rules = [abs(md.sum(y)) <= 2] if clusters == 2 else [md.sizes(y, n // clusters - 2, n // clusters + 2)]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.hinge(margins))), rules)


@pytest.fixture(scope="module")
def solution():
    return problem_of().solve("sdp", random_state=7)


def test_a_page_needs_nothing_else_says_what_is_known_and_is_the_same_again(solution, tmp_path):
    solution.report(tmp_path / "page.html")
    solution.report(tmp_path / "again.html")
    one, again = ((tmp_path / name).read_text(encoding="utf-8") for name in ("page.html", "again.html"))
    assert one == again
    page = Page(tmp_path / "page.html")
    assert not {"script", "iframe", "object"} & set(page.tags)
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    for said in (f"{solution.value:.6g}", f"{solution.bound:.6g}", reading.meaning(solution), reading.advice(solution),
                 "random_state 7", "tol 1e-06", "lam 3.0", f"margindsl {md.__version__}", "labels are in B",
                 solution.origin["certificate"], *solution.origin["text"].splitlines()[0].split()):
        assert said in page.words, said
    assert page.tags.count("svg") == 6
    assert not re.search(r"\b(nan|inf)\b", page.words)
    assert {address[1:] for address in page.addresses if address.startswith("#") and "-" not in address} <= set(
        re.findall(r'id="([^"]+)"', (tmp_path / "page.html").read_text(encoding="utf-8")))


def test_names_are_text_whatever_they_say(tmp_path):
    found = problem_of(name=HOSTILE).solve("alternating", random_state=0)
    found.report(tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    assert "script" not in page.tags and HOSTILE in page.words


def test_a_page_of_several_clusters_and_of_a_file(tmp_path):
    found = problem_of(18, 3).solve("alternating", random_state=0)
    found.save(tmp_path / "found.npz")
    md.Solution.load(tmp_path / "found.npz").report(tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    assert "No bound was proved" in page.words and f"{found.value:.6g}" in page.words and "md.sizes" in page.words


def test_a_comparison_shows_every_row_and_the_best_answer(tmp_path):
    problem = problem_of(12)
    table = md.compare(problem, ["alternating", "supervised", "sdp"], random_state=0)
    table.report(tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    assert all(row.relaxation in page.words for row in table.rows) and "refused" in page.words
    assert f"{table.best().value:.6g}" in page.words and f"{table.bound:.6g}" in page.words
    assert table.best().bound == table.bound and table.best().verify()  # a bound of another row, with its proof
    nothing = md.compare(problem, ["supervised"])
    nothing.report(tmp_path / "nothing.html")
    assert "refused" in Page(tmp_path / "nothing.html").words


def test_a_comparison_of_formulations_over_seeds_has_spread_and_agreement(tmp_path):
    table = md.compare({"one": problem_of(12), "two": problem_of(12)}, ["alternating", md.SDP(polish="none")], seeds=2)
    assert len(set(table.agreement().columns)) == 8 and len(table.summary()) == 4
    frame = table.to_frame()
    assert np.allclose(frame[["compile", "solve", "polish", "rest"]].sum(axis=1), frame.seconds)
    table.report(tmp_path / "page.html", title="Two formulations")
    words = Page(tmp_path / "page.html").words
    assert all(said in words for said in ("Two formulations", "sdp(polish='none')", "value std", "adjusted Rand"))
    assert len(table.plot().get_xticks()) == 4


def test_a_page_takes_a_title_classes_and_names_of_columns(solution, tmp_path):
    solution.report(tmp_path / "page.html", title="Flowers", truth=["a", "b"] * 10, names=["petal", "sepal"])
    words = Page(tmp_path / "page.html").words
    assert all(said in words for said in ("Flowers", "class a", "accuracy", "petal", "sepal"))
    with pytest.raises(DeclarationError, match="one class and one cluster a point"):
        solution.report(tmp_path / "page.html", truth=["a", "b"])


def test_many_points_are_sampled(tmp_path):
    n = 12_000
    X = np.random.default_rng(0).normal(size=(n, 2)) + np.repeat([[3.0], [-3.0]], n // 2, axis=0)
    y, f = md.Labels(n), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.squared_hinge(y * f))), [abs(md.sum(y)) <= 0.1 * n])
    problem.solve("alternating", warm_start=np.sign(X[:, 0] + 1e-9), random_state=0, time_limit=5).report(
        tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 1_500_000


def test_a_gap_is_never_read_as_more_than_was_proved(solution):
    said = [reading.meaning(solution), *(entry.means for entry in reading.GAPS)]
    assert all("{gap}" in entry.means for entry in reading.GAPS) and not any("optimal" in text for text in said)
    assert reading.GAPS[-1].most == np.inf and sorted(entry.most for entry in reading.GAPS) == [
        entry.most for entry in reading.GAPS]
    local, exact = (problem_of(8).solve(name, random_state=0) for name in ("alternating", "exact"))
    assert reading.reading_of(local) is reading.UNBOUNDED and reading.reading_of(exact) is reading.PROVED
    assert exact.state is Status.OPTIMAL and reading.meaning(exact) in " ".join(exact.summary().split())
    assert reading.advice(local) in " ".join(local.summary().split()) and "'exact'" in reading.advice(local)


def test_nobody_is_told_to_try_what_was_stopped():
    y, f = md.Labels(40), md.Hyperplane(np.random.default_rng(3).normal(size=(40, 4)))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
    stopped = problem.solve(md.Exact(starts=1), random_state=0, max_iter=1)
    assert stopped.status == "iteration_limit" and stopped.gap > 0.01, "the problem is too easy to be stopped"
    assert "Raise max_iter" in reading.advice(stopped) and "'exact'" not in reading.advice(stopped)


def test_a_value_of_zero_is_read_without_a_number():
    y, f = md.Labels(4), md.Hyperplane(np.arange(4.0)[:, None])
    found = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.pos(y * f - 1)))).solve("alternating", random_state=0)
    assert found.value == 0 and not re.search(r"\b(nan|inf)\b", found.summary().split("meaning")[1])
