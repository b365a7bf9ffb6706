"""Say which links within a built site lead nowhere: ``python .ci/links.py build/docs``; exit code 1 if any does."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """Collect what a page links to, and the places in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.places |= {given[key] for key in ("id", "name") if given.get(key)}
        self.links += [given[key] for key in ("href", "src") if given.get(key)]


def broken(folder):
    """Yield page and link of everything that leads nowhere."""
    files = (path for path in folder.rglob("*.html") if "_static" not in path.parts)
    pages = {path.resolve(): Page(path) for path in files}
    for path, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            file, place = urldefrag(link)
            target = (path.parent / unquote(urlsplit(file).path)).resolve() if file else path
            if not target.exists() or (target in pages and unquote(place) not in pages[target].places):
                yield f"{path.relative_to(folder.resolve())}: {link}"


if __name__ == "__main__":
    found = sorted(set(broken(Path(sys.argv[1]))))
    print("\n".join(found) or "every link within the site leads somewhere")
    sys.exit(bool(found))
