"""Stands in for pybullet where it cannot be installed, and notes that a test needs it; see tests/conftest.py."""

import os
from pathlib import Path

Path(os.environ["EES_TEST_NEEDED_BULLET"]).touch()
raise ImportError("pybullet is not installed here")
