#!/usr/bin/env python3
"""Check the order of the package: no circle of files, and no room that imports a room above it.

A room is a module or folder directly under `ees_mpi/`. The order is the module map in the docstring of
`ees_mpi/__init__.py`: a room imports only from rooms on lower lines. Imports inside functions count, too, and so do the
strings by which parts are loaded ("ees_mpi.module:name"); these may close a circle of files, but not lead upwards.

    tools/structure.py      prints what is wrong, and then exits with 1
"""

import ast
import graphlib
import re
import sys
from pathlib import Path


def imports(path: Path, known: dict[str, Path]) -> tuple[set[str], set[str]]:
    """Return the modules of the package that a file imports, at its top or inside functions, and those of strings."""
    imported, loaded = set[str](), set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            imported.update(name if name in known else node.module for name in inside)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            loaded.add(node.value.partition(":")[0])  # "ees_mpi.module:name", or its beginning in an f-string
    return imported & known.keys(), loaded & known.keys()


def room(module: str) -> str:
    """Return the room of a module; the package itself is its own room."""
    return module.split(".")[1] if "." in module else "__init__"


def floors(docstring: str) -> dict[str, int]:
    """Return the line of each room in the module map, from the top."""
    order = {"__init__": -2, "__main__": -1}
    for number, line in enumerate(docstring.splitlines()):
        match = re.match(r"    ((?:\w+(?:/|\.py) ?)+)", line)
        for name in re.findall(r"(\w+)(?:/|\.py)", match[1]) if match else ():
            order[name] = number
    return order


def problems(package: Path) -> list[str]:
    """Return everything that breaks the order."""
    known = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        known[".".join(parts).removesuffix(".__init__")] = path
    order = floors(ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or "")
    found = [f"not in the module map: {name}" for name in sorted({*map(room, known)} - order.keys())]
    named = {module: imports(path, known) for module, path in known.items()}
    for module, both in named.items():
        for other in sorted(set.union(*both)):
            above, here = order.get(room(other), 0), order.get(room(module), 0)
            if room(other) not in (room(module), "__init__") and here >= above:
                found.append(f"against the order: {module} imports {other}")
    graph = {module: imported - {module} for module, (imported, _) in named.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        found.append(f"circle: {', '.join(error.args[1])}")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(problems(Path(__file__).parents[1] / "ees_mpi")) or 0)
