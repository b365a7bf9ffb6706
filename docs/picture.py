"""Draw the picture of the README and the front page, for light and dark pages: ``python docs/picture.py``.

It is the figure of ``examples/links.py``, with colours that follow the reader's choice of light or dark.
"""

import io
import re
import runpy
from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
LIGHT = {"paper": "#fff", "muted": "#666", "one": "#d55e00", "two": "#0072b2", "kept": "#2ca02c", "broken": "#d62728"}
DARK = dict(zip(LIGHT, ("#14181e", "#b3b3ae", "#ff9a52", "#56b4e9", "#5fd35f", "#ff6b6b")))
STYLE = ("<style>svg{{color:#1a1a1a;{}background:var(--paper)}}@media (prefers-color-scheme:dark)"
         "{{svg{{color:#e8e8e6;{}}}}}</style>")
STYLE = STYLE.format(*("".join(f"--{name}:{colour};" for name, colour in theme.items()) for theme in (LIGHT, DARK)))
COLOURS = (("#000000", "currentColor"), ("#666666", "var(--muted)"), ("#ffffff", "var(--paper)"),
           *((colour, f"var(--{name})") for name, colour in LIGHT.items() if len(colour) == 7))

matplotlib.use("svg")
matplotlib.rc("svg", fonttype="path", hashsalt="readme")
runpy.run_path(str(ROOT / "examples" / "links.py"))
figure, stream = plt.gcf(), io.StringIO()
figure.patch.set_visible(False)
for axes in figure.axes:
    axes.patch.set_visible(False)
figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
text = stream.getvalue()
text = re.sub(r"(<svg [^>]*>)", rf"\1\n {STYLE}", text[text.index("<svg"):], count=1)
for ink, ours in COLOURS:
    text = text.replace(f": {ink}", f": {ours}")
text = text.replace('<g id="text_', '<g fill="currentColor" id="text_')
(ROOT / "docs" / "_static" / "readme.svg").write_text(text, encoding="utf-8")
