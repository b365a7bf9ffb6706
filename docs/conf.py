"""How the pages become a site: ``sphinx-build -W -b html docs build/docs``, with the extra ``docs``."""

import os
import re
import sys
import tomllib
from pathlib import Path

import latex2mathml.converter
import ziamath
from docutils import nodes

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # examples are small
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = METADATA["name"]
release = version = METADATA["version"]
author = "margindsl developers"
copyright = author

extensions = [
    "myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive", "sphinx_copybutton", "declarations"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery/*.ipynb", "gallery/*.py", "gallery/sg_execution_times.rst", "sg_execution_times.rst"]
templates_path = ["_templates"]
nitpicky = True

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_url_schemes = ["http", "https"]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

copybutton_selector = "div:not(.highlight-output) > div.highlight pre"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

plot_formats = [("png", 120)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = False
plot_pre_code = "import numpy as np\nimport matplotlib.pyplot as plt\nimport margindsl as md"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "declarations.by_question",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 3,
    "remove_config_comments": True,
    "plot_gallery": True,
    "capture_repr": (),
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static", str(Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf")]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_nav_level": 1,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def _mathml(display):
    def visit(self, node):
        formula = latex2mathml.converter.convert(node.astext(), display=display)
        self.body.append(formula if display == "inline" else f'<div class="math">{formula}</div>')
        raise nodes.SkipNode

    return visit, None


def _escape(text):
    """Escape what reStructuredText misreads in prose: the bars of |x| and the last underscore of coef_."""
    return re.sub(r"(\w)_(?!\w)", r"\1\\_", text.replace("|", r"\|"))


def _as_meant(app, what, name, obj, options, lines):
    """Escape a docstring outside of its literals and doctests, and authors' initials at the head of a line."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", ".. ")):
            parts = re.split(r"(``.*?``|`[^`]+`)", re.sub(r"^(\s*[A-Z])\. ", r"\1\\. ", line))
            lines[number] = "".join(part if part.startswith("`") else _escape(part) for part in parts)


def setup(app):
    """Write formulas as MathML, which needs no script, and docstrings as they are meant."""
    app.connect("autodoc-process-docstring", _as_meant, priority=900)
    app.add_html_math_renderer("mathml", inline_renderers=_mathml("inline"), block_renderers=_mathml("block"))
