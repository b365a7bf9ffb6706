"""The harness is a script with modules beside it; tests import them the same way."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
