"""A `sitecustomize` that sends a signal to its own process when a module is about to be imported.

SIGNAL_IN_IMPORT = "MODULE NUMBER".
"""

import os
import sys
from typing import Any


class _Finder:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        module, number = os.environ["SIGNAL_IN_IMPORT"].split()
        if name == module:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            os.kill(os.getpid(), int(number))


sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
