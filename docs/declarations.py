"""What the site reads from the source: declarations of recipes, and the order of the gallery."""

import ast
import inspect
import textwrap

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import margindsl as md


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


QUESTIONS = [
    "first_clustering", "how_good", "which_relaxation", "worth_waiting", "links", "contradictory_links", "balance",
    "few_labels", "several_clusters", "kernels", "label_matrix", "margin_distribution", "new_objective",
    "shared_threshold", "parameter_path", "swap_solvers", "published_methods", "scikit_learn", "embedding",
    "many_points", "outliers"]


def by_question(filename):
    """Return the place of an example in the gallery: first what a reader asks first."""
    name = filename.removesuffix(".py")
    return QUESTIONS.index(name) if name in QUESTIONS else len(QUESTIONS)


class Declaration(SphinxDirective):
    """Show the declaration of the recipe that is named."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        self.env.note_dependency(inspect.getsourcefile(inspect.unwrap(getattr(md.recipes, name))))
        code = declaration(name)
        return [nodes.literal_block(code, code, language="python")]


def setup(app):
    """Register the directive."""
    app.add_directive("declaration", Declaration)
    return {"parallel_read_safe": True}
