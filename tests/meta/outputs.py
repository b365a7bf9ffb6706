"""What the Python blocks of the documents print, and whether the pages show it.

A block fenced as ``python`` that prints is followed by a block fenced as ``output`` with what it printed. Run
``python tests/meta/outputs.py [--write] [PAGES]`` to compare them, or to write those that differ; without pages, all.

Words are compared as they stand, but for the widths of columns and where sentences are broken. Numbers may differ by
what processors and versions of packages differ by: `RELATIVE` of the larger, or one unit of the last digit shown, or
both below `ZERO`, in % of 100; whole numbers are equal, unless they count work (``14 iterations``). Times are not
compared: numbers before ``s``, in lines that begin with ``seconds`` and in columns named `TIMES`.
"""

import argparse
import contextlib
import io
import os
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = ("api", "gallery")  # by the site, from the source and the examples
PAGES = [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if p.relative_to(DOCS).parts[0] not in MADE)]
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$(?P<shown>\n\n?```output\n(?P<output>.*?)^```$)?", re.M | re.S)
MOST_LINES = 15
WIDTH = 100  # of sentences

RELATIVE = 0.01
ZERO = 1e-5
TIMES = ("seconds", "compile", "solve", "polish")
WORK = r"iterations?|rounds?|steps?|cuts?|evaluations?|nodes?"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


@dataclass(frozen=True)
class Block:
    """Represent a block that was run."""

    line: int
    shown: str | None
    printed: str


def run(page: Path) -> list[Block]:
    """Return the blocks of a page, run one after the other in one namespace, with what each printed."""
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": page.stem}
    wrapped = textwrap.TextWrapper(WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    blocks = []
    for match in BLOCK.finditer(text):
        above = text[:match.start("code")].count("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * above + match["code"], str(page), "exec"), namespace)
        lines = [line.rstrip() for line in printed.getvalue().strip("\n").splitlines()]
        lines = [part for line in lines for part in ([line] if "  " in line else wrapped.wrap(line) or [""])]
        blocks.append(Block(above, match["output"], "".join(f"{line}\n" for line in lines)))
    return blocks


def without_times(text: str) -> list[str]:
    """Return the lines of an output, sentences whole, with the times taken out."""
    lines, columns = [], []
    for line in re.sub(r"\n {4,}", " ", text).splitlines():  # sentences as one line each, wherever they were broken
        if "  " in line and any(re.search(rf"\b{name}\b", line) for name in TIMES) and not NUMBER.search(line):
            columns = [match.span() for match in re.finditer(r"\S+(?: \S+)*", line) if match[0] in TIMES]
        elif not line.strip():
            columns = []
        for begin, end in reversed(columns):
            line = line[:begin] + NUMBER.sub("T", line[begin:end]) + line[end:]
        line = re.sub(rf"{NUMBER.pattern}(?= s\b)", "T", line)
        lines.append("seconds T" if line.startswith("seconds ") and NUMBER.search(line) else line)
    return lines


def close(shown: str, printed: str, after: str) -> bool:
    """Return whether a number that is shown is the one that was printed, to the tolerance; `after`: what follows it."""
    a, b = (float(number.replace(",", "")) for number in (shown, printed))
    if not re.search(r"[.e]", shown + printed):
        return a == b or re.match(rf" (?:{WORK})\b", after) is not None
    digits = re.fullmatch(r"[-+]?[\d,]+(?:\.(\d+))?(?:e([-+]?\d+))?", shown)
    unit, whole = 10.0 ** (int(digits[2] or 0) - len(digits[1] or "")), 100 if after.startswith(" %") else 1
    return abs(a - b) <= max(RELATIVE * max(abs(a), abs(b)), 1.001 * unit, ZERO * whole)


def differences(shown: str, printed: str) -> list[str]:
    """Return the lines of which an output differs from what was printed, as sentences."""
    ours, theirs = without_times(shown), without_times(printed)
    if len(ours) != len(theirs):
        return [f"{len(ours)} lines are shown, {len(theirs)} are printed"]
    wrong = []
    for ours_line, theirs_line in zip(ours, theirs, strict=True):
        words = [re.sub(r" +|-{2,}", lambda run: run[0][0], NUMBER.sub("#", each)) for each in (ours_line, theirs_line)]
        after = [ours_line[m.end():] for m in NUMBER.finditer(ours_line)]
        numbers = zip(NUMBER.findall(ours_line), NUMBER.findall(theirs_line), after, strict=False)
        if words[0] != words[1] or not all(close(*number) for number in numbers):
            wrong.append(f"shown: {ours_line}\nprinted: {theirs_line}")
    return wrong


def faults(block: Block) -> list[str]:
    """Return what is wrong with the output of a block."""
    if block.shown is None:
        return ["the block prints and shows nothing"] if block.printed else []
    if not block.printed:
        return ["the block shows an output and prints nothing"]
    wrong = [f"the output has more than {MOST_LINES} lines"] if block.printed.count("\n") > MOST_LINES else []
    longest = [max(map(len, text.splitlines())) for text in (block.shown, block.printed)]
    wrong += [f"a sentence is longer than {WIDTH} characters"] if longest[0] > max(WIDTH, longest[1]) else []
    return wrong + differences(block.shown, block.printed)


def write(page: Path, blocks: list[Block]) -> None:
    """Write into a page what its blocks printed, where that differs from what it shows."""
    ran = iter(blocks)

    def renewed(match: re.Match[str]) -> str:
        block = next(ran)
        if not faults(block):
            return match[0]
        return match[0][:len(match[0]) - len(match["shown"] or "")] + (
            f"\n\n```output\n{block.printed}```" if block.printed else "")

    page.write_text(BLOCK.sub(renewed, page.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> int:
    """Compare the pages that are named with what they print, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write what differs")
    parser.add_argument("pages", nargs="*", type=Path, help="pages; all when left out")
    arguments = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "Agg")
    stale = pages = all_blocks = with_output = 0
    for page in arguments.pages or PAGES:
        blocks = run(page)
        pages += bool(blocks)
        all_blocks += len(blocks)
        with_output += sum(bool(block.printed) for block in blocks)
        for block in blocks:
            for fault in faults(block):
                print(f"{page}:{block.line}: {fault}")
                stale += 1
        if arguments.write:
            write(page, blocks)
    print(f"{pages} pages with blocks, {all_blocks} blocks, {with_output} with output")
    return int(stale > 0 and not arguments.write)


if __name__ == "__main__":
    sys.exit(main())
