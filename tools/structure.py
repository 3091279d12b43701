#!/usr/bin/env python3
"""Count the rooms of the package, the imports between them, and everything that breaks the order of the tree.

A room is a module or folder directly under `ees_mpi/`. An arrow is a room that imports another room; imports inside
functions count, too, and so do the strings by which parts are loaded ("ees_mpi.module:name"). Files that import each
other in a circle, not by a string, are refused. The order of the tree is the module map in the docstring of
`ees_mpi/__init__.py`: a room imports only from rooms on lower lines.

It also counts what a user meets: commands, their parameters, keys, presets, kinds of files. These have no limit;
CONTRIBUTING.md has the most important ones. They need an environment that can import ees_mpi.

    tools/structure.py              prints the numbers; exits with 1 if a limit is exceeded
"""

import ast
import graphlib
import re
import sys
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "ees_mpi"
LIMITS = {"rooms": 32, "arrows": 170, "flat modules": 16, "against the order": 0, "longest module": 500}
FILES = {  # the kinds of files that the program writes for later use, and the module of each
    "run": "store/fold.py",
    "its journal": "store/journal.py",
    "its lock": "store/lock.py",
    "sample or measurement": "commands/offspring.py",
    "adaptation": "commands/adapt.py",
    "policy": "commands/export.py",
}


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: dict[str, Path], strings: bool) -> set[str]:
    """Return the modules of the package that a file imports, at its top or inside functions; `strings`: or by one."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in inside]
        elif strings and isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value.partition(":")[0]]  # "ees_mpi.module:name", or its beginning in an f-string
        else:
            continue
        found |= {name for name in names if name in known}
    return found


def room(module: str) -> str:
    """Return the room of a module; the package itself is its own room."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return files that import each other in a circle; empty if there are none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def floors() -> dict[str, int]:
    """Return the line of each room in the module map, from the top."""
    docstring = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))) or ""
    order = {"__init__": -2, "__main__": -1}
    for number, line in enumerate(docstring.splitlines()):
        match = re.match(r"    ((?:\w+(?:/|\.py) ?)+)", line)
        for name in re.findall(r"(\w+)(?:/|\.py)", match[1]) if match else ():
            order[name] = number
    return order


def things() -> dict[str, int]:
    """Return the number of things that a user meets."""
    missing = [module for module in FILES.values() if not (PACKAGE / module).exists()]
    if missing:
        raise SystemExit(f"structure: {missing[0]} is gone; correct the list of kinds of files in tools/structure.py")
    found = {"presets": len(list(PACKAGE.glob("presets/*.toml"))), "kinds of files": len(FILES)}
    try:
        sys.path.insert(0, str(PACKAGE.parent))
        from ees_mpi.cli.main import cli
        from ees_mpi.config import keys
    except ImportError as error:
        print(f"not counted: commands, parameters and keys, because ees_mpi cannot be imported here: {error}")
        return found
    commands = cli.commands.values()
    parameters = sum(len(command.params) for command in commands)
    sections = sum(len(section.keys) for section in keys.sections())
    return {"commands": len(commands), "parameters": parameters, "keys": sections, **found}


def main() -> int:
    """Print the numbers and return the exit code."""
    known = modules()
    graph = {name: imports(path, known, strings=True) - {name} for name, path in known.items()}
    arrows = sorted({(room(a), room(b)) for a, targets in graph.items() for b in targets if room(a) != room(b)})
    arrows = [(a, b) for a, b in arrows if b != "__init__"]
    rooms = {room(name) for name in known} - {"__init__"}
    order = floors()
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in known.items()}
    longest = max(lines, key=lambda name: lines[name])
    missing = sorted(rooms - order.keys())
    upward = [(a, b) for a, b in arrows if a in order and b in order and order[a] >= order[b]]
    loop = circle({name: imports(path, known, strings=False) - {name} for name, path in known.items()})
    counts = {
        "rooms": len(rooms),
        "arrows": len(arrows),
        "flat modules": len(list(PACKAGE.glob("*.py"))),
        "against the order": len(upward),
        "longest module": lines[longest],
    }
    for name, count in counts.items():
        print(f"{name:20} {count:6}  (at most {LIMITS[name]})")
    for name, count in things().items():
        print(f"{name:20} {count:6}")
    print(f"{'lines':20} {sum(lines.values()):6}  in {len(lines)} modules; the longest is {longest}")
    by_room: Counter[str] = Counter()
    for name, count in lines.items():
        by_room[room(name)] += count
    for name, count in by_room.most_common():
        print(f"    {name + ('/' if (PACKAGE / name).is_dir() else '.py'):16} {count:6}")
    if loop:
        print(f"circle: {', '.join(loop)}")
    for a, b in upward:
        print(f"against the order: {a} imports {b}")
    for name in missing:
        print(f"not in the module map: {name}")
    return int(bool(missing or loop) or any(count > LIMITS[name] for name, count in counts.items()))


if __name__ == "__main__":
    sys.exit(main())
