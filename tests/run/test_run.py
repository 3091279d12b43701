"""An open run is a mapping of its arrays, in finished and in running files; negative generations count from the end."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import h5py
import numpy as np
import pytest
import xarray
from support.small_runs import walk

from ees_mpi import Run, open_run
from ees_mpi.errors import MissingExtra, RunFileError


@pytest.fixture(scope="module", params=["finished", "in the journal"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cheetah: Path) -> Iterator[Run]:
    """A finished run, and one whose generations are all in the journal."""
    path = cheetah
    if request.param != "finished":
        path = walk(tmp_path_factory.mktemp("arrays") / "run.h5", "cheetah-maxent", closed=False)
    with open_run(path) as opened:
        yield opened


def test_a_run_is_a_mapping_of_its_arrays(run: Run) -> None:
    assert list(run) == list(run.keys()) == run._ipython_key_completions_()
    assert len(run) == len(dict(run)) > 30
    assert "entropy" in run and "entropi" not in run and run.get("entropi") is None
    assert {name: series.shape[0] for name, series in run.items()} == dict.fromkeys(run, 3)
    assert run == run and hash(run)
    with pytest.raises(KeyError, match="has no array 'entropi'; it has behavior, "):
        run["entropi"]


def test_a_run_shows_what_it_is(run: Run) -> None:
    size = run.config.population.size
    assert repr(run) == f"<Run {run.path}: cheetah, maxent, {size} individuals, 3 of 3 generations, {len(run)} arrays>"
    assert repr(run["entropy"]).startswith(f"<Series of {run.path}: shape (3,), float64")


def test_negative_generations_count_from_the_end(run: Run) -> None:
    last = run.generations - 1
    np.testing.assert_array_equal(run.individual(-1, 2), run.individual(last, 2))
    np.testing.assert_array_equal(run.draw(-1).offset, run.draw(last).offset)
    np.testing.assert_array_equal(run.observation_statistics(-2), run.observation_statistics(last - 1))
    np.testing.assert_array_equal(run.observation_sums(-1), run.observation_sums(last))
    np.testing.assert_array_equal(run.learned(-1)["mean"], run.learned(last)["mean"])
    np.testing.assert_array_equal(run["behavior"][-3], run["behavior"][0])
    assert run.device(-1) == run.device(last) == "cpu"


def test_a_generation_that_does_not_exist_is_an_index_error(run: Run) -> None:
    for generation in (3, -4):
        message = f"generation {generation} is not in .*, which has 3"
        with pytest.raises(IndexError, match=message):
            run.individual(generation, 0)
        with pytest.raises(IndexError, match=message):
            run["entropy"][generation]
    with pytest.raises(IndexError, match="individual 99 is not among the"):
        run.individual(0, 99)


@pytest.mark.slow
def test_to_xarray_is_what_xarray_reads_from_the_file(cheetah: Path) -> None:
    with open_run(cheetah) as run, xarray.open_dataset(cheetah, group="generations", engine="h5netcdf") as expected:
        made = run.to_xarray()
        xarray.testing.assert_equal(made, expected.drop_vars(["checksums", "array"]))
        assert made["entropy"].attrs == expected["entropy"].attrs


def test_to_xarray_takes_names_and_reads_the_journal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = run.to_xarray("mean", "entropy")
    assert set(dataset) == {"mean", "entropy"} and dataset["mean"].dims == ("generation", "component", "parameter")
    assert dataset["entropy"].values.tolist() == run["entropy"][:].tolist()
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ees_mpi\[analysis\]'"):
        run.to_xarray()


def test_an_array_is_opened_when_it_is_read_and_once(tmp_path: Path) -> None:
    path, opened, begin = tmp_path / "run.h5", [], h5py.Dataset.__init__
    walk(path, "interference-maxent", "run.generations=20", stops=(10, 20), closed=False)

    def noted(dataset: h5py.Dataset, *arguments: object, **named: object) -> None:
        begin(dataset, *arguments, **named)
        opened.append(dataset.name)

    with mock.patch.object(h5py.Dataset, "__init__", noted), open_run(path) as run:
        assert opened == []
        assert [float(run["entropy"][g]) for g in range(20)] == run["entropy"][:].tolist()
    assert sorted(opened) == ["/generations/checksums", "/generations/entropy"]


READING = """
import sys, ees_mpi
with ees_mpi.open_run(sys.argv[1]) as run:
    print(run.complete, len(run["mean"][:]), "ees_mpi.config" in sys.modules)
print(len([name for name in sys.modules if name.startswith("ees_mpi")]))
"""


def test_reading_arrays_loads_few_modules_and_parses_no_config(cheetah: Path) -> None:
    done = subprocess.run([sys.executable, "-c", READING, str(cheetah)], capture_output=True, text=True, check=True)
    read, modules = done.stdout.splitlines()
    assert read == "True 3 False" and int(modules) <= 16


def test_a_closed_run_says_so(cheetah: Path) -> None:
    with open_run(cheetah) as run:
        pass
    assert repr(run) == f"<Run {cheetah}, closed>"
    with pytest.raises(RunFileError, match="is closed; open it again"):
        run["entropy"]
