"""Random damage of any file of the store gives an error or the right data: never other data, a hang or a traceback.

EES_TEST_DAMAGES=2000 tries more flipped bits; there is a zeroed block for every seventh of them.
"""

import os
import random
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import done
from support.small_runs import walk

from ees_mpi import open_run
from ees_mpi.commands.adapt import read_adaptation
from ees_mpi.errors import EesError
from ees_mpi.store.fold import repair

FLIPS = int(os.environ.get("EES_TEST_DAMAGES", "28"))
SECONDS = 60  # a case takes a tenth of a second; a hang is ended
Contents = dict[str, Any]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a small file of each kind, in a folder of its own."""
    place = tmp_path_factory.mktemp("kinds")
    for name in ("run", "long", "killed", "mixture", "sample", "adapt"):
        (place / name).mkdir()

    def trained(path: Path, preset: str, stops: tuple[int, ...], killed: bool = False, *more: str) -> Path:
        few = ("population.size=6", "noise.size=5000", f"run.generations={stops[-1]}")
        return walk(path, preset, *few, *more, stops=stops, closed=not killed)

    robot = ("task.hidden=[3]", "task.steps=4")
    found = {
        "run": trained(place / "run/run.h5", "interference-maxvar", (3, 6)),
        "long": trained(place / "long/run.h5", "interference-maxvar", (20, 40)),  # more than one chunk
        "killed": trained(place / "killed/run.h5", "interference-maxvar", (3, 6), True),
        "mixture": trained(place / "mixture/run.h5", "ant-maxent-mixture", (2, 3), False, *robot),
        "sample": place / "sample/run.h5",
        "adapt": place / "adapt/run.h5",
    }
    done("sample", found["run"], "--count", 4, "--out", found["sample"])
    words = ["--direction", "left", "--mutations", 3, "--evaluations", 2, "--out", found["adapt"]]
    done("adapt", trained(place / "cheetah.h5", "cheetah-maxent", (2,), False, *robot), *words)
    return found


def contents(path: Path) -> Contents:
    """Return everything that can be read of a file, as bytes; an error is left out."""
    found: Contents = {}

    def note(name: str, read: Callable[[], Any]) -> None:
        try:
            found[name] = read()
        except EesError:
            return

    if path.parent.name == "adapt":
        note("attributes", lambda: str(read_adaptation(path).attributes))
        note("arrays", lambda: {name: each.tobytes() for name, each in read_adaptation(path).arrays.items()})
        return found
    try:
        run = open_run(path)
    except EesError:
        return {}
    with run:
        found["attributes"], found["generations"] = str(run.attributes), run.generations
        note("sessions", lambda: str(run.sessions()))
        note("state", lambda: {name: np.asarray(each).tobytes() for name, each in run.state_arrays().items()})
        note("individual", lambda: run.individual(-1, 2).tobytes())
        for name in run:
            note(name, lambda name=name: np.asarray(run[name]))
            note(f"{name}[-1]", lambda name=name: run[name][-1].tobytes())
    return found


def same(one: Any, other: Any) -> bool:
    return one.tobytes() == other.tobytes() if isinstance(one, np.ndarray) else bool(one == other)


def repaired(path: Path, whole: Contents) -> str:
    """Fold the journal of a file; return what is wrong with it after that: numbers that are not the right ones."""
    try:
        repair(path)
    except EesError:
        return ""
    now = contents(path)
    if not now or now["generations"] > whole["generations"]:
        return "cannot be read after repair"
    arrays = {name: rows for name, rows in now.items() if isinstance(rows, np.ndarray)}
    wrong = [name for name, rows in arrays.items() if not same(rows, whole[name][: len(rows)])]
    return f"other data after repair: {wrong[:5]}" if wrong else ""


def trial(path: Path, whole: Contents, damage: Callable[[bytearray], None], suffix: str) -> str:
    """Damage a copy of a file in a process of its own, and read and repair it; return what went wrong."""
    place = path.parent.with_name("case") / path.parent.name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(path.parent, place)
    raw = bytearray((place / f"run.h5{suffix}").read_bytes())
    damage(raw)
    (place / f"run.h5{suffix}").write_bytes(raw)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        try:
            found = contents(place / "run.h5")
            wrong = [name for name in found if not same(found[name], whole[name])]
            said = f"other data: {wrong[:5]}" if wrong else ""
            said = said or ("" if path.parent.name == "adapt" else repaired(place / "run.h5", whole))
        except BaseException as error:
            said = f"traceback: {error!r}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        return f"ended with status {status}" if status else pipe.read().decode()


def flip(raw: bytearray, chance: random.Random) -> None:
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)


def zero(raw: bytearray, chance: random.Random) -> None:
    size = chance.choice([64, 512, 4096])
    start = chance.randrange(max(1, len(raw) - size))
    raw[start : start + size] = bytes(len(raw[start : start + size]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run", "long", "killed", "killed.journal", "mixture", "sample", "adapt"])
def test_random_damage_gives_an_error_or_the_right_data(kind: str, files: dict[str, Path]) -> None:
    name = kind.partition(".")[0]
    path, chance = files[name], random.Random(kind)
    whole = contents(path)
    assert len(whole) > 1
    count = -(-FLIPS // 7)
    damages = [flip] * count + [zero] * -(-count // 6)
    faults = [trial(path, whole, partial(each, chance=chance), kind.removeprefix(name)) for each in damages]
    assert [fault for fault in faults if fault] == []
