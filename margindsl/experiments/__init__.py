"""Published experiments re-run: data sets, protocols, baselines, tables. Needs the extra ``margindsl[reproduce]``."""

import importlib.util

from margindsl.errors import NotInstalledError

NEEDED = {"sklearn": "scikit-learn"}  # import names of what the extra installs, and what it is called there


def require_installed() -> None:
    """Raise unless what the extra ``reproduce`` installs is there."""
    missing = [name for package, name in NEEDED.items() if importlib.util.find_spec(package) is None]
    if missing:
        raise NotInstalledError(f"published experiments need {', '.join(missing)}, which is not installed; run "
                                "`pip install margindsl[reproduce]`")


__all__ = ["require_installed"]
