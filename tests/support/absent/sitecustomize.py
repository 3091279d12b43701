"""Notes that a test looks for a package of an extra that is not installed; see tests/conftest.py.

Python imports this file by itself in the processes that tests start.
"""

import os
import sys
from pathlib import Path
from typing import Any


class Absent:
    """Finds nothing. The last finder is asked for what is not installed."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name in os.environ["EES_TEST_EXTRAS"].split():
            Path(os.environ["EES_TEST_NEEDED"]).write_text(name)


sys.meta_path.append(Absent)
