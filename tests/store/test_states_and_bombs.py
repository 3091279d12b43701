"""Files of a stranger: states that do not fit the config, and small files that would fill the memory."""

import contextlib
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.program import ees, refusal
from support.run_files import edited, renew
from support.small_runs import walk

from ees_mpi import open_run
from ees_mpi.store import chain, records, texts

LONG = "x" * 1_000_000


def replace(file: h5py.File, name: str, data: object, **how: object) -> None:
    if name in file:
        del file[name]
    file.create_dataset(name, data=data, **how)


def change_config(file: h5py.File, old: str, new: str) -> None:
    config = file.attrs["config"].decode()
    assert old in config
    texts.put(file, {"config": config.replace(old, new)})


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with the moments of Adam."""
    return walk(tmp_path_factory.mktemp("learned") / "run.h5", "interference-maxvar", "optimizer.name=adam")


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: replace(file, "final/extra", np.zeros(3)),
        lambda file: replace(file, "final/mean", np.zeros((1, 1, 1), np.float32)),
        lambda file: replace(file, "final/mean", np.zeros(1, [("a", "<f4"), ("b", "<i4")])),
        lambda file: replace(
            file, "final/moments/first", np.array([file.ref] * 2, h5py.ref_dtype), dtype=h5py.ref_dtype
        ),
        lambda file: replace(file, "final/moments/first", np.array(["a"], object), dtype=h5py.string_dtype()),
        lambda file: replace(file, "final/moments/first", np.zeros((2, 2))),
        lambda file: replace(file, "final/moments/steps", np.array(-(10**18))),
        lambda file: replace(file, "final/memory/archive", np.zeros((2, 1))),
        lambda file: replace(file, "final/observations", np.array([np.nan])),
        lambda file: replace(file, "sessions/session", np.array([10**12])),
        lambda file: replace(file, "sessions/session", np.array([1.5])),
        lambda file: change_config(file, "size = 8", "size = 9"),
        lambda file: change_config(file, 'name = "adam"', 'name = "adam"\nstd_lr = "x"'),
    ],
    ids=range(13),
)
def test_a_state_that_does_not_fit_the_config_is_a_sentence(
    harm: Callable[[h5py.File], None], learned: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copy(learned, tmp_path / "run.h5"))
    with h5py.File(run, "r+") as file:
        harm(file)
        with contextlib.suppress(Exception):  # arrays that are no numbers have no hash
            renew(file)
    for words in (["info", run], ["resume", run, "--generations", 5], ["verify", run]):
        code, line = refusal(*words)
        assert code == 3 and "run.h5" in line, line


@pytest.mark.parametrize(
    ("rows", "observations"),
    [
        (np.full((3, 5), np.nan), np.zeros((0, 2))),
        (np.zeros((3, 5)), np.zeros((0, 2))),  # three times individual 0
        (np.zeros((1, 9)), np.zeros((0, 2))),
        (np.zeros((1, 5)), np.array([[1e300, 0.0]])),
        (np.array([[1.0, 0.5, 1.0, 0.0, 0.0]]), np.zeros((0, 2))),
    ],
)
def test_outcomes_of_an_interrupted_generation_that_no_run_has_are_refused(
    rows: np.ndarray, observations: np.ndarray, learned: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copy(learned, tmp_path / "run.h5"))
    columns, data = records.flat({"observations": observations, "rows": rows})
    with h5py.File(run, "r+") as file:
        chain.put_partial(file, records.make(open_run(run).run_id, "partial", 3, records.START, columns, data), 3)
    code, line = refusal("resume", run, "--generations", 5)
    assert code == 3 and "an interrupted generation" in line


def test_a_layer_more_in_the_config_than_in_the_arrays_is_a_sentence(cheetah: Path, tmp_path: Path) -> None:
    run = Path(shutil.copy(cheetah, tmp_path / "run.h5"))
    with edited(run) as file:
        lines = file.attrs["config"].decode()
        start, end = lines.index("hidden = ["), lines.index("]", lines.index("hidden = [")) + 1
        texts.put(file, {"config": f"{lines[:start]}hidden = [1, 2, 3]{lines[end:]}"})
    for command in ("info", "verify", "export", "resume"):
        code, line = refusal(command, run, *(["--to", "npz"] if command == "export" else []))
        assert code == 3 and "mean has the shape" in line


def test_a_huge_metric_is_shown_without_a_warning(learned: Path, tmp_path: Path) -> None:
    run = Path(shutil.copy(learned, tmp_path / "run.h5"))
    with edited(run) as file:
        file["generations/gradient_norm"][...] = [1e308, -1e308, 1e308]
    for words in (["watch", run, "--once"], ["info", run], ["report", run, "-o", tmp_path / "out.html"]):
        shown = ees(*words)
        assert shown.returncode == 0 and not shown.stderr, shown.stderr


def fill_text(file: h5py.File) -> None:
    for name, dtype in (("machine", h5py.string_dtype()), ("start", "<f8")):
        del file["sessions"][name]
        file["sessions"].create_dataset(name, (20_000,), dtype, **({"fillvalue": LONG} if name == "machine" else {}))


def many_attributes(file: h5py.File) -> None:
    for number in range(300):
        file.attrs[f"more{number}"] = "short"


def compressed(file: h5py.File) -> None:
    del file["generations/fitness"]
    file["generations"].create_dataset("fitness", (3, 10_000_000), "<f8", compression="gzip")


def claimed(file: h5py.File) -> None:
    for dataset in file["generations"].values():
        if dataset.maxshape[0] is None:
            dataset.resize(1_000_000, axis=0)


def one_text_many_times(file: h5py.File) -> None:
    del file["sessions/machine"]
    many = file["sessions"].create_dataset("machine", (3900,), h5py.string_dtype())
    many[0], many[1:] = 2 * LONG, "short"
    file["place"] = many.id.get_offset()


@pytest.mark.parametrize("bomb", [fill_text, many_attributes, compressed, claimed, one_text_many_times])
def test_a_small_file_cannot_fill_the_memory(bomb: Callable[[h5py.File], None], learned: Path, tmp_path: Path) -> None:
    run = Path(shutil.copy(learned, tmp_path / "run.h5"))
    with h5py.File(run, "r+") as file:
        bomb(file)
        place = int(file["place"][()]) if "place" in file else 0
    if place:  # all texts refer to the first
        raw = run.read_bytes()
        run.write_bytes(raw[:place] + raw[place : place + 16] * 3900 + raw[place + 16 * 3900 :])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for words in (["info", run], ["repair", run], ["resume", run]):
        assert refusal(*words)[0] == 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KB


def test_one_long_text_that_many_rows_of_format_2_refer_to_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "many.h5"
    with h5py.File(path, "w") as file:
        many = file.create_dataset("machine", (100,), h5py.string_dtype())
        many[:] = LONG
    with h5py.File(path) as file, pytest.raises(ValueError, match="holds more than"):
        texts.column(file["machine"])
