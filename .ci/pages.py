"""Count what is wrong with the pages: ``python .ci/pages.py SITE [--pages N]``, SITE being what sphinx-build wrote.

Blocks that print and show nothing (or show what is stale), words, private words and dead links; and, where Chromium is
installed, texts of too little contrast (WCAG 2, level AA), errors of the console and pages wider than the window, in
light, in dark and as narrow as a window of it can be.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / ".ci")]

from links import broken  # noqa: E402
from meta import outputs  # noqa: E402

MADE = ("_static", "_sources", "_downloads", "_images")
CHROMIUM = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0",
            "--virtual-time-budget=3000", "--dump-dom")
LOOKS = {"light": (1280, 1), "dark": (1280, 0), "narrow": (500, 1)}  # width and preferred scheme
PALE = """<script>addEventListener("load", () => setTimeout(() => {
const ink = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const rgba = colour => { ink.clearRect(0, 0, 1, 1); ink.fillStyle = colour; ink.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = ink.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i]).concat(1);
const paper = node => { const all = []; for (; node; node = node.parentElement) {
  all.push(rgba(getComputedStyle(node).backgroundColor)); if (all.at(-1)[3] == 1) break; }
  return all.reduceRight((below, top) => over(top, below),
    matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0, 1] : [255, 255, 255, 1]); };
const found = new Set();
for (const node of document.querySelectorAll("body *")) {
  const text = [...node.childNodes].filter(n => n.nodeType == 3).map(n => n.data.trim()).join("");
  const style = getComputedStyle(node), box = node.getBoundingClientRect();
  if (!text || style.visibility == "hidden" || !box.width || box.right < 0) continue;
  if (node.closest("script,style,svg,math")) continue;
  const below = paper(node), [a, b] = [light(over(rgba(style.color), below)), light(below)];
  const size = parseFloat(style.fontSize), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5))
    found.add(`${ratio.toFixed(2)} ${node.tagName.toLowerCase()}.${node.className} ${text.slice(0, 30)}`);
}
const wide = document.documentElement.scrollWidth - innerWidth;
document.body.insertAdjacentHTML("beforeend", `<pre id=wide>${wide}</pre><pre id=pale></pre>`);
document.getElementById("pale").textContent = [...found].join("\\n");
}, 300));</script>"""


def seen(browser, page, width, scheme):
    """Return the texts of a page that are too pale, what the console says is an error, and what is too wide."""
    copy = page.with_name(f"_seen_{page.name}")
    copy.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{PALE}</body>"), encoding="utf-8")
    try:
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                [browser, *CHROMIUM, f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={width},2000",
                 f"--user-data-dir={home}", copy.resolve().as_uri()], capture_output=True, text=True, timeout=120)
    finally:
        copy.unlink()
    pale = re.search(r'<pre id="pale">(.*?)</pre>', done.stdout, re.DOTALL)
    if pale is None:
        return [], ["the page was not seen"], []
    errors = [line for line in done.stderr.splitlines()  # the theme writes what it chose there, too
              if "CONSOLE" in line and re.search(r"uncaught|error|fail|refused|denied", line, re.IGNORECASE)]
    wide = int(re.search(r'<pre id="wide">(.*?)</pre>', done.stdout)[1])
    return pale[1].splitlines(), errors, [f"by {wide} pixels"] if wide > 0 else []


def main():
    """Print the figures, what is behind those that are not zero, and return whether all hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--pages", type=int, help="pages the browser looks at; all but those of the api if left out")
    options = parser.parse_args()
    silent = [f"{page.name}:{block.line}: {fault}" for page in outputs.PAGES for block in outputs.run(page)
              for fault in outputs.faults(block)]
    prose = [re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
             for page in outputs.PAGES]
    from meta.test_documents import RETIRED

    private = re.compile(rf"\b({'|'.join(RETIRED)})\b", flags=re.IGNORECASE)
    figures = {"blocks without their output": silent, "dead links": sorted(set(broken(options.site))),
               "private words": [word for text in prose for word in private.findall(text)]}
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    pages = [page for page in sorted(options.site.rglob("*.html"))
             if not {*MADE, "api"} & set(page.relative_to(options.site).parts)][:options.pages]
    if browser is None:
        print("no Chromium here: contrast and console are not looked at")
    else:
        looks = [(page, name, *seen(browser, page, *look)) for page in pages for name, look in LOOKS.items()]
        for name, at in (("texts of too little contrast", 2), ("errors of the console", 3), ("too wide", 4)):
            figures[name] = [f"{look[0].relative_to(options.site)} {look[1]}: {one}"
                             for look in looks for one in look[at]]
    for name, places in figures.items():
        print(f"{name:30} {len(places)}")
        for place in places[:20]:
            print(f"    {place}")
    print(f"{'words outside code':30} {sum(len(text.split()) for text in prose)}")
    return int(any(figures.values()))


if __name__ == "__main__":
    sys.exit(main())
