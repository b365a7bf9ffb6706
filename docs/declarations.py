"""What the site reads from the source: declarations, what gaps and statuses mean; and the order of the gallery."""

import ast
import inspect
import re
import textwrap

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

import margindsl as md
from margindsl.contract import Status
from margindsl.recipes.recipe import traits_of
from margindsl.views import reading


def declaration(name):
    """Return the source of a recipe without decorator, annotations and docstring."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(md.recipes, name))))
    function = ast.parse(source).body[0]
    first = function.body[1 if ast.get_docstring(function) else 0]
    body = source.splitlines()[first.lineno - 1:]
    function.returns, arguments = None, function.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    head = f"def {name}({ast.unparse(arguments)}):"
    return "\n".join([*textwrap.wrap(head, 100, subsequent_indent=" " * (len(name) + 5)), *body])


QUESTIONS = {
    "Cluster": ["first_clustering", "how_many", "several_clusters", "kernels", "scikit_learn", "many_points",
                "embedding"],
    "Rules and labels": ["links", "contradictory_links", "balance", "few_labels", "label_matrix"],
    "How good is it?": ["how_good", "best_clustering", "which_relaxation", "worth_waiting", "what_matters", "outliers"],
    "Formulations and solvers": ["margin_distribution", "new_objective", "shared_threshold", "parameter_path",
                                 "swap_solvers", "published_methods"]}


def by_question(filename):
    """Return the place of an example in the gallery: first what a reader asks first."""
    return [name for names in QUESTIONS.values() for name in names].index(filename.removesuffix(".py"))


def in_sections(app, docname, source):
    """Give the page of the gallery a heading above the first example of every section."""
    if docname == "gallery/index":
        head, *parts = re.split(r"(?=\.\. raw:: html\n\n    <div class=\"sphx-glr-thumbcontainer\")", source[0])
        firsts = {names[0]: section for section, names in QUESTIONS.items()}
        for at, part in enumerate(parts):
            section = firsts.get(re.search(r":doc:`/gallery/(\w+)`", part)[1])
            if section:
                parts[at] = (f".. raw:: html\n\n    </div>\n\n{section}\n{'-' * len(section)}\n\n.. raw:: html\n\n"
                             f"    <div class=\"sphx-glr-thumbnails\">\n\n{part}")
        source[0] = head + "".join(parts)


class Declaration(SphinxDirective):
    """Show the declaration of the recipe that is named."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        self.env.note_dependency(inspect.getsourcefile(inspect.unwrap(getattr(md.recipes, name))))
        code = declaration(name)
        link = addnodes.pending_xref("", nodes.literal("", f"md.recipes.{name}"), refdomain="py", reftype="func",
                                     reftarget=f"margindsl.recipes.{name}", refwarn=True, refdoc=self.env.docname)
        said = nodes.paragraph("", f"{traits_of(getattr(md.recipes, name)).method}. Arguments: ", link)
        return [said, nodes.literal_block(code, code, language="python")]


class Table(SphinxDirective):
    """Show rows that are read from the source."""

    head = ()

    def rows(self):
        """Return the rows, a tuple of cells each."""
        raise NotImplementedError

    def run(self):
        lines = [self.head, ["---"] * len(self.head), *self.rows()]
        return self.parse_text_to_nodes("\n".join(f"| {' | '.join(line)} |" for line in lines))


class Gaps(Table):
    """Show what a gap means, and what to do."""

    head = ("gap", "what it means", "what to do next")

    def rows(self):
        known = [("`optimal`", reading.PROVED)]
        known += [(f"up to {each.most:.0%}" if each.most < 1 else "more", each) for each in reading.GAPS]
        return [(gap, each.means.format(gap="the gap"), each.do) for gap, each in [*known, ("∞", reading.UNBOUNDED)]]


class Statuses(Table):
    """Show what the word of a status means, and what to do."""

    head = ("status", "what it means", "what to do next")

    def rows(self):
        then = {Status.OPTIMAL: reading.PROVED.do, Status.CONVERGED: "Look at the gap.", **reading.NEXT}
        return [(f"`{status.word}`", status.value, then[status]) for status in Status if status.has_answer]


def setup(app):
    """Register the directives."""
    app.connect("source-read", in_sections)
    for kind in (Declaration, Gaps, Statuses):
        app.add_directive(kind.__name__.lower(), kind)
    return {"parallel_read_safe": True}
