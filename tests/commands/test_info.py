"""`ees-mpi info` of one file, and of several."""

import errno
import fcntl
import json
import os
import shutil
import socket
import time
import tomllib
from pathlib import Path

import pytest
from support.program import done, ees, info, refusal, train
from support.run_files import edited, stored

from ees_mpi import open_run
from ees_mpi.commands.info import writer
from ees_mpi.store.lock import Lock

NAMES = ("interference", "sample", "adapt", "maml", "maml-adapt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a sample and an adaptation of each method, and three runs of a sweep; tests do not change them."""
    place = tmp_path_factory.mktemp("info")
    stored(place, *(f"{name}.h5" for name in NAMES))
    for number, std in enumerate((0.5, 0.1, 0.2)):
        train(place / f"sweep{number}.h5", "interference-maxvar", f"population.std={std}", f"run.seed={number}")
    return place


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def rows(*words: object) -> list[dict[str, str]]:
    """The rows of the table that `info` prints, by heading."""
    heads, *lines = (line.split() for line in done("info", *words).stdout.splitlines())
    return [dict(zip(heads, line, strict=True)) for line in lines]


def test_one_run_is_shown_with_its_config_dates_and_results() -> None:
    text = done("info", "sweep0.h5").stdout
    facts, _, toml = text.partition("\n\n")
    with open_run("sweep0.h5") as run:
        assert tomllib.loads(toml) == run.config.sections()
        last = float(run["entropy"][run.generations - 1])
    shown = dict(line.split(maxsplit=1) for line in facts.splitlines())
    assert shown["entropy"] == f"{last:.4g}" and shown["task"] == "interference" and "-" not in shown.values()
    assert shown["started"] <= shown["ended"] and shown["ended"].startswith("20")
    data = info(Path("sweep0.h5"))
    assert data["results"]["entropy"] == last and data["config"]["population"]["std"] == 0.5


@pytest.mark.usefixtures("quick_figures")
def test_the_numbers_of_a_measurement_are_shown_with_the_std_of_their_row(tmp_path: Path) -> None:
    out = tmp_path / "measured.h5"
    done("measure", "sweep0.h5", "--std", "0.1,0.7", "--count", 4, "-o", out)
    results = info(out)["results"]
    with open_run(out) as run:
        assert (results["std"], results["variance"]) == (pytest.approx(0.7), run["variance"][1])


def test_a_table_has_the_keys_in_which_runs_differ_and_is_sorted() -> None:
    table = rows("sweep0.h5", "sweep1.h5", "sweep2.h5")
    assert [(row["file"], row["population.std"], row["seed"], row["generations"]) for row in table] == [
        ("sweep0.h5", "0.5", "0", "6/6"),
        ("sweep1.h5", "0.1", "1", "6/6"),
        ("sweep2.h5", "0.2", "2", "6/6"),
    ]
    assert not {"kind", "population.size", "run.seed"} & table[0].keys()
    by_std = rows("sweep0.h5", "sweep1.h5", "sweep2.h5", "--sort", "population.std")
    assert [row["seed"] for row in by_std] == ["1", "2", "0"]
    falling = rows("sweep0.h5", "sweep1.h5", "sweep2.h5", "--sort=-entropy")
    entropies = [float(row["entropy"]) for row in falling]
    assert entropies == sorted(entropies, reverse=True)


def test_files_of_all_kinds_are_in_one_table_and_in_one_list() -> None:
    files = [*(f"{name}.h5" for name in NAMES), "sweep0.h5"]
    table = rows(*files, "--sort", "distance_mean")
    assert {row["kind"] for row in table} == {"run", "study", "adaptation"}
    assert [row["distance_mean"] for row in table[-2:]] == ["-", "-"]  # files without the value come last
    data = [json.loads(line) for line in done("info", *files, "--json").stdout.splitlines()]
    assert [facts["file"] for facts in data] == files and all("config" in facts for facts in data)


def test_a_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("hello")
    failed = ees("info", "sweep0.h5", tmp_path / "text.h5", "sweep1.h5")
    assert failed.returncode == 3 and failed.stdout.count("\n") == 3
    assert failed.stderr.startswith("ees-mpi: 1 of 3 files cannot be read") and "text.h5" in failed.stderr
    code, line = refusal("info", tmp_path / "text.h5", tmp_path / "none.h5", "--sort", "seed")
    assert code == 3 and "2 of 2 files cannot be read" in line
    code, line = refusal("info", "sweep0.h5", "sweep1.h5", "--sort", "population.sdt")
    assert code == 2 and "did you mean population.std" in line


def test_a_table_says_how_far_unfinished_runs_are_and_who_writes_them(tmp_path: Path) -> None:
    stopped = Path(shutil.copy("sweep0.h5", tmp_path / "stopped.h5"))
    with edited(stopped) as file:
        file.attrs["config"] = file.attrs["config"].decode().replace("generations = 6", "generations = 9", 1)
        file.attrs["until"] = 9
    heads, first, second, empty, note = (
        line.split() for line in done("info", "sweep1.h5", stopped).stdout.splitlines()
    )
    done_, unfinished = dict(zip(heads, first, strict=True)), dict(zip(heads, second, strict=True))
    assert (done_["generations"], done_["left"]) == ("6/6", "-") and float(done_["s/gen"]) > 0
    assert unfinished["generations"] == "6/9" and unfinished["left"] == "0:00:00" and not empty
    assert note[0] == f"{stopped}:" and "nobody writes it now" in " ".join(note)
    first_facts, facts = map(json.loads, done("info", "sweep1.h5", stopped, "--json").stdout.splitlines())
    assert first_facts["writer"] is None and "nobody" in facts["writer"] and facts["seconds_per_generation"] > 0
    asked = ees("info", "--complete", "sweep1.h5", stopped)
    assert (asked.returncode, asked.stdout, asked.stderr) == (1, "", "")


def test_files_of_all_kinds_are_complete_when_they_are_there(tmp_path: Path) -> None:
    assert ees("info", "--complete", *(f"{name}.h5" for name in NAMES)).returncode == 0
    assert ees("info", "--complete", tmp_path / "none.h5").returncode == 3


def test_a_writer_is_told_from_one_that_was_killed(tmp_path: Path) -> None:
    run, sidecar = tmp_path / "run.h5", tmp_path / "run.h5.lock"
    assert "nobody writes it now" in writer(run)
    held = Lock(run)
    name = f"process {os.getpid()} on {socket.gethostname()}"
    assert writer(run) == f"being written by {name}"
    left = sidecar.read_text()
    held.release()
    sidecar.write_text(left)  # as after SIGKILL: the file stays, the lock does not
    assert f"{name}, was interrupted or killed, or crashed; `ees-mpi resume` continues it" in writer(run)
    sidecar.write_text("")  # killed before it had written its name
    assert "or crashed" in writer(run)


def test_where_locks_do_not_tell_the_last_sign_of_life_of_a_writer_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    run, sidecar = tmp_path / "run.h5", tmp_path / "run.h5.lock"
    sidecar.write_text('{"host": "node7", "pid": 12}')  # some file systems lock within a node only
    assert "process 12 on node7, gave its last sign of life" in writer(run) and "cannot be told" in writer(run)
    sidecar.write_text(json.dumps({"host": socket.gethostname(), "pid": 12}))
    monkeypatch.setattr(fcntl, "flock", no_locks)
    monkeypatch.setattr(time, "time", lambda: sidecar.stat().st_mtime + 90)
    assert "gave its last sign of life 0:01:30 ago" in writer(run)
    sidecar.unlink()
    os.mkfifo(sidecar)
    assert "a process without a name" in writer(run)
