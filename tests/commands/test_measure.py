"""`ees-mpi measure`: the evolvability of a policy that was trained elsewhere."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.evil import Evil
from support.program import done, info, refusal, sets
from support.run_files import assert_same_bits

import ees_mpi
from ees_mpi import open_run
from ees_mpi.analysis.labels import stds
from ees_mpi.analysis.numbers.summaries import table_of_stds
from ees_mpi.commands.requests import MeasureRequest
from ees_mpi.foreign import policy_files
from ees_mpi.spread import Scale, best_of
from ees_mpi.tasks.interference import pattern

SMALL = sets("task.steps=12", "noise.size=50000")
WORDS = ("--task", "cheetah-maxent", *SMALL, "--std", "0.02,0.2", "--count", 6)
SIZES = (26, 8, 6)


def arrays(sizes: tuple[int, ...] = SIZES) -> dict[str, np.ndarray]:
    """Return the arrays of a random network, with the names of torch's Sequential."""
    generator = np.random.default_rng(0)
    named = {}
    for place, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        named[f"{2 * place}.weight"] = generator.normal(size=(outputs, inputs)).astype(np.float32)
        named[f"{2 * place}.bias"] = generator.normal(size=outputs).astype(np.float32)
    return named


def network() -> dict[str, np.ndarray]:
    """The function that tests name on the command line."""
    return arrays()


def npz(path: Path, named: dict[str, np.ndarray]) -> Path:
    np.savez(path, **named)  # type: ignore[arg-type]
    return path


def measured(policy: Any, out: Path, std: Any = (0.02, 0.2), **words: Any) -> Path:
    """Measure in Python, which draws no figure."""
    words = {"task": "cheetah-maxent", "settings": {"task.steps": 12, "noise.size": 50000}, "count": 6, **words}
    ees_mpi.measure(policy, std=std, out=out, **words).close()
    return out


@pytest.fixture(scope="module")
def numpy_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The measurement of a network that a Python function returns, on one rank."""
    out = tmp_path_factory.mktemp("measure") / "numpy.h5"
    said = done("measure", "commands.test_measure:network", *WORDS, "--label", "net", "-o", out)
    assert "best of 40" in said.stdout and out.with_suffix(".png").stat().st_size > 10_000
    return out


def test_python_measures_arrays_npz_and_torch_with_the_bits_of_the_command(numpy_network: Path, tmp_path: Path) -> None:
    assert_same_bits(numpy_network, measured(arrays(), tmp_path / "here.h5"))
    path = npz(tmp_path / "net.npz", arrays())
    assert_same_bits(numpy_network, measured(path, tmp_path / "npz.h5"))
    assert info(tmp_path / "npz.h5")["started_from"]["path"] == path.name  # without its folder
    with open_run(tmp_path / "here.h5") as run:
        assert run.generations == 2 and run.config.task.layers == SIZES
        assert run.sessions()[0]["start"] < run["seconds_clock"][0]
    torch = pytest.importorskip("torch")
    torch.save({name: torch.from_numpy(array) for name, array in arrays().items()}, tmp_path / "net.pt")
    assert_same_bits(numpy_network, measured(tmp_path / "net.pt", tmp_path / "torch.h5"))


def test_a_policy_states_its_normaliser_in_its_own_file_or_beside_it(tmp_path: Path) -> None:
    stated = {
        "observation_mean": np.arange(26, dtype=np.float32),
        "observation_std": np.full(26, 0.05, np.float32),  # below the floor of training
        "observation_clip": np.array(3.0, np.float32),
    }
    npz(tmp_path / "own.npz", {**arrays(), **stated})
    npz(tmp_path / "net.npz", arrays())
    np.savez(tmp_path / "stats.npz", **stated)
    measured(tmp_path / "own.npz", tmp_path / "own.h5")
    measured(tmp_path / "net.npz", tmp_path / "beside.h5", normaliser=tmp_path / "stats.npz")
    assert_same_bits(tmp_path / "own.h5", tmp_path / "beside.h5")
    with open_run(tmp_path / "own.h5") as run:
        np.testing.assert_array_equal(run["observation_mean"][0], stated["observation_mean"])
        np.testing.assert_array_equal(run["observation_std"][1], stated["observation_std"].astype(np.float64))
        assert run.config.task.observation_clip == 3.0
    twice = ("--normaliser", tmp_path / "stats.npz", "-o", tmp_path / "no.h5")
    code, line = refusal("measure", tmp_path / "own.npz", *WORDS, *twice)
    assert code == 2 and "its own normaliser" in line
    code, line = refusal("export", tmp_path / "own.h5", "--policy", "-o", tmp_path / "policy.npz")
    assert code == 2 and "smallest std of its normaliser is 0.05" in line and not (tmp_path / "policy.npz").exists()


@pytest.mark.usefixtures("quick_figures")
def test_the_file_serves_the_other_commands(numpy_network: Path, tmp_path: Path) -> None:
    assert "the same bits" in done("verify", numpy_network, "--individuals", 2).stdout
    assert "best_of_40" in done("metrics", numpy_network, "--generation", 0).stdout
    assert info(numpy_network)["started_from"]["objective"] == "net"
    other = npz(tmp_path / "other.npz", {**arrays(), "0.bias": np.zeros(8, np.float32)})
    same = measured(other, tmp_path / "other.h5")
    table = done("compare", "--metric", "distance_mean", numpy_network, "--against", same).stdout
    assert "net against other" in table and "the runs differ" not in table
    wider = measured(other, tmp_path / "wider.h5", 0.1, count=20, starts=2)
    table = done("compare", "--metric", "distance_mean", numpy_network, "--against", wider).stdout
    assert "the runs differ in task.rollouts" in table
    by_std = done("compare", "--metric", "distance_mean", "--by", "population.std", numpy_network, wider).stdout
    with open_run(numpy_network) as one, open_run(wider) as other:
        assert all(f"population.std = {stds(run)[-1]:g} " in by_std for run in (one, other)), by_std
    done("figure", "measure", numpy_network, same, wider, "-o", tmp_path / "all.png")
    for words in (("resume", numpy_network), ("verify", numpy_network, "--updates")):
        assert refusal(*words)[0] == 3


@pytest.mark.slow
def test_a_run_and_an_exported_policy_are_measured_in_their_own_task(cheetah: Path, tmp_path: Path) -> None:
    done("export", cheetah, "--policy", "-o", tmp_path / "policy.npz")
    own: dict[str, Any] = {"task": None, "settings": None, "count": 4}
    measured(cheetah, tmp_path / "run.h5", 0.02, **own)
    assert_same_bits(tmp_path / "run.h5", measured(tmp_path / "policy.npz", tmp_path / "policy.h5", 0.02, **own))
    with open_run(cheetah) as run, open_run(tmp_path / "run.h5") as found:
        assert found["mean"][0].tobytes() == run.state_arrays()["mean"].tobytes()
        assert found.config.task == run.config.task


@pytest.mark.usefixtures("quick_figures")
def test_by_default_the_stds_are_around_that_of_the_run_and_the_file_is_named_after_it(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = done("measure", copied, "--count", 4, "--cell", 0.25).stdout
    first = copied.with_name(f"{copied.stem}-measure.h5")
    with open_run(copied) as run, open_run(first) as found:
        own = run.config.population.std
        assert stds(found) == [own / 2, own, 2 * own] and "cells of 0.25" in said
    with open_run(first) as opened, ees_mpi.measure(opened, count=2, out=tmp_path / "again.h5") as again:
        assert stds(again) == [own / 2, own, 2 * own]  # of the run, not of the last row
    with monkeypatch.context() as patched:
        patched.setattr("ees_mpi.run.starting_point.StartingPoint.own_std", -6.1)  # of a user's population: a log std
        with ees_mpi.measure(copied, std=[0.1], count=2, out=tmp_path / "log.h5") as found:
            assert stds(found) == [0.1]
    assert first.with_suffix(".png").exists()
    assert ": 1000 mutations" in done("sample", copied).stdout
    words: dict[str, Any] = {"task": "interference-maxvar", "count": 4, "settings": {"noise.size": 1000}}
    np.savez(tmp_path / "flat.npz", **arrays())  # type: ignore[arg-type]
    assert MeasureRequest(str(tmp_path / "flat.npz")).target == tmp_path / "flat-measure.h5"
    assert MeasureRequest("my.nets:make").target == Path("make-measure.h5")
    with ees_mpi.measure(lambda: np.ones(1, np.float32), out=tmp_path / "other.h5", **words) as other:
        assert stds(other) == [0.01, 0.02, 0.05]


def test_a_learned_std_counts_by_its_median_also_in_samples_and_exported_policies(tmp_path: Path) -> None:
    small = sets("population.name=diagonal", "population.size=6", "run.generations=3", "noise.size=100000")
    done("train", "cheetah-maxvar", *SMALL[:2], *small, "-o", tmp_path / "run.h5")
    done("sample", tmp_path / "run.h5", "--count", 2, "--std", 0.5, "-o", tmp_path / "sample.h5")
    for name in ("run", "sample"):
        done("export", tmp_path / f"{name}.h5", "--policy", "-o", tmp_path / f"{name}.npz")
    with open_run(tmp_path / "run.h5") as run:
        own = float(np.median(run.state_arrays()["std"]))
        assert own != run.config.population.std
    for name in ("run.h5", "run.npz", "sample.h5", "sample.npz"):
        with ees_mpi.measure(tmp_path / name, count=2, overwrite=True) as found:
            assert stds(found) == [own / 2, own, 2 * own]


def test_each_row_has_mutations_of_its_own_std(tmp_path: Path) -> None:
    words: dict[str, Any] = {"std": [0.25, 0.125, 2.0], "count": 5, "settings": {"noise.size": 1000}}
    with ees_mpi.measure(lambda: np.ones(1), "interference-maxvar", out=tmp_path / "m.h5", **words) as run:
        mutations = np.array([[run.individual(row, number)[0] for number in range(5)] for row in range(3)])
        steps = mutations - run["mean"][:, 0]
        np.testing.assert_allclose(steps[1:] / steps[0], np.tile([[0.5], [8.0]], 5), rtol=1e-3)
        assert run["behavior"][:, :, 0].tolist() == [[pattern(float(x)) for x in row] for row in mutations]


@pytest.mark.usefixtures("quick_figures")
def test_coverage_has_the_cells_of_the_command(numpy_network: Path, tmp_path: Path) -> None:
    with open_run(numpy_network) as run:
        coverage = [line.split()[4] for line in table_of_stds(run, Scale(np.full(2, 1e-9), 1.0))[2:4]]
        assert coverage == ["6", "6"] and table_of_stds(run, Scale(np.full(2, 1e9), 1.0))[2].split()[4] in ("1", "2")
    picture = tmp_path / "m.png"
    assert done("figure", "measure", numpy_network, "--cell", 0.1, "-o", picture).stdout.split() == [str(picture)]
    code, line = refusal("figure", "line", numpy_network, "--cell", 0.1, "-o", tmp_path / "l.png")
    assert code == 2 and "--cell is for sweep, measure" in line


def test_training_starts_from_a_policy_with_its_network_and_says_so(tmp_path: Path) -> None:
    start = npz(tmp_path / "net.npz", arrays())
    few = sets("population.size=4", "run.generations=1", "noise.size=100000")
    small = ("train", "cheetah-es", *SMALL, *few, "--from", start)
    said = done(*small, "--out", tmp_path / "run.h5").stdout
    assert "net.npz sets task.hidden = [8], task.observation_share = 0.0, task.observation_clip = 0.0" in said
    assert 'does not say its activation; task.activation = "tanh" is taken (--activation)' in said
    done(*small, "--out", tmp_path / "run.h5", "--resume")
    with open_run(tmp_path / "run.h5") as run:
        policy = policy_files.read(start)
        assert run["mean"][0, 0].tobytes() == policy.parameters.tobytes()
        assert (run["observation_std"][0] == 1).all()
    done(*small[:-1], "commands.test_measure:network", "--out", tmp_path / "same.h5")
    assert_same_bits(tmp_path / "run.h5", tmp_path / "same.h5")
    # A run that goes on from that one must not begin to normalise either.
    more = (
        *small[:-1],
        tmp_path / "run.h5",
        *sets("task.hidden=[8]", "task.observation_clip=0"),
        "--out",
        tmp_path / "more.h5",
    )
    code, line = refusal(*more)
    assert code == 2 and "expected task.observation_share=0" in line
    done(*more, *sets("task.observation_share=0"))


def test_a_pickle_is_refused_unread_and_a_whole_module_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    mark = tmp_path / "it-ran"
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil(mark)))
    torch.save({"0.weight": Evil(mark)}, tmp_path / "zipped.pt")
    torch.save(torch.nn.Linear(26, 6), tmp_path / "module.pt")
    said = []
    for name in ("plain", "zipped", "module"):
        code, line = refusal("measure", tmp_path / f"{name}.pt", *WORDS, "-o", tmp_path / "out.h5")
        assert code == 3 and "state_dict" in line and not mark.exists()
        said.append(line)
    assert "was not read" in said[0]
    code, line = refusal("train", "cheetah-es", "--from", tmp_path / "plain.pt", "--out", tmp_path / "run.h5")
    assert code == 3 and "was not read" in line and not mark.exists()


def test_best_of_is_the_mean_over_all_choices() -> None:
    generator = np.random.default_rng(0)
    for dim in (1, 2, 3):
        x = generator.normal(size=(7, dim))
        if dim == 2:
            angles = np.arange(8) * np.pi / 4
            directions = np.stack([np.cos(angles), np.sin(angles)])
        else:
            directions = np.hstack([np.eye(dim), -np.eye(dim)])
        best = [(x[list(chosen)] @ directions).max(axis=0).mean() for chosen in itertools.combinations(range(7), 3)]
        assert best_of(x, x, 3) == pytest.approx(np.mean(best))
        assert np.isnan(best_of(x, x, 8)), "no 8 can be chosen from 7"
