"""Faulty solvers stand in a module beside the tests, which import it from there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
