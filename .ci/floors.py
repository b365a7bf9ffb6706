"""Print the declared floors of pyproject.toml as exact pins: what `pip install` of the oldest environment takes.

    python .ci/floors.py test > floors.txt        # the dependencies and those of the extra "test"
"""

import re
import sys
import tomllib
from pathlib import Path

FLOOR = re.compile(r"(?P<name>[\w.-]+(\[[a-z,]+\])?)\s*>=\s*(?P<version>[0-9][0-9a-z.]*)(,!=[0-9.*]+)?(;.*)?$")


def floors(*extras: str) -> list[str]:
    """Return one pin a requirement of the project and of some of its extras."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    found = [FLOOR.fullmatch(line) for line in lines]
    missing = [line for line, match in zip(lines, found) if match is None]
    if missing:
        raise SystemExit(f"no floor is declared in {missing}; write name>=version")
    return [f"{match['name']}=={match['version']}" for match in found if match]


if __name__ == "__main__":
    print("\n".join(floors(*sys.argv[1:])))
