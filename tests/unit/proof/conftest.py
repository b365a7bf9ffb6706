"""Kinds of proofs and their forger are modules beside the tests, and scripts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
