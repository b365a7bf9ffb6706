"""``python -m margindsl`` is the command ``margindsl``."""

import sys

from margindsl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
