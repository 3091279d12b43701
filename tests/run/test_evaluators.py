"""Individuals in batches, as on a GPU, give the results of individuals one by one; GPUs are shared out by UUID."""

import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from support import stand_in_gpu
from support.program import done, ees, info, sets
from support.run_files import assert_same_bits, edited

from ees_mpi import open_run
from ees_mpi.ranks import gpus
from ees_mpi.tasks.own import CustomTask


def train(out: Path, *settings: str, gpus: str = "GPU-a", **more: Any) -> CompletedProcess[str]:
    config = out.with_suffix(".toml")
    config.write_text(stand_in_gpu.CONFIG)
    return seeing(gpus, "train", config, *sets(*settings), "--out", out, **more)


def seeing(gpus: str, *words: object, ranks: int | None = None, code: int = 0) -> CompletedProcess[str]:
    """Run a command on ranks that see these GPUs; it must end with this exit code."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EES_TEST_GPUS", gpus)
        ended = ees(*words, ranks=ranks)
    assert ended.returncode == code, ended.stderr
    return ended


def batches(folder: Path) -> dict[str, list[list[int]]]:
    """Return the batches of each rank that drove a GPU."""
    found = {}
    for path in sorted(folder.glob("rank*")):
        lines = [line.split() for line in path.read_text().splitlines()]
        assert len({line[0] for line in lines}) == 1  # one GPU per rank
        found[path.name] = [list(map(int, line[1:])) for line in lines]
    return found


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cpu") / "run.h5"
    train(out, gpus="")
    assert info(out)["devices"] == ["cpu"]
    return out


@pytest.mark.standing_ranks
@pytest.mark.parametrize(
    ("ranks", "visible", "capacity", "drivers"),
    [(None, "GPU-a", 4, 1), (3, "GPU-a,GPU-b", 6, 2)],
    ids=["several batches", "two GPUs and three ranks"],
)
def test_batches_have_the_outcomes_of_single_individuals(
    ranks: int | None, visible: str, capacity: int, drivers: int, one_by_one: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run.h5"
    settings = [f"task.settings.log={tmp_path}", f"task.settings.capacity={capacity}"]
    train(out, *settings, ranks=ranks, gpus=visible)
    assert info(out)["devices"] == ["cuda"]
    assert info(out)["state_sha256"] == info(one_by_one)["state_sha256"]
    seen = batches(tmp_path)
    assert list(seen) == [f"rank{rank}" for rank in range(drivers)]
    evaluated = [index for each in seen.values() for batch in each for index in batch]
    assert sorted(evaluated) == sorted([*range(21)] * 5 + [21] * 3)  # the mean in generations 0, 2 and 4
    assert all(len(batch) <= capacity for each in seen.values() for batch in each)


@pytest.mark.standing_ranks
def test_a_stop_between_batches_begins_the_generation_again(one_by_one: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    settings = [f"task.settings.log={tmp_path}", "task.settings.capacity=6", "task.settings.stop_at=6"]
    assert "0 generations are saved" in train(out, *settings, ranks=2, code=75).stderr
    seeing("GPU-a", "resume", out, ranks=2)
    seen = [batch for each in batches(tmp_path).values() for batch in each]
    assert seen[:3] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [0, 1, 2, 3, 4, 5]]
    assert info(out)["state_sha256"] == info(one_by_one)["state_sha256"]


def test_a_run_continues_on_another_device(one_by_one: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    train(out, "run.generations=2")
    seeing("", "resume", out, "--generations", 5)
    assert info(out)["devices"] == ["cpu", "cuda"]
    assert info(out)["state_sha256"] == info(one_by_one)["state_sha256"]


@pytest.mark.standing_ranks
def test_offspring_and_adaptations_come_in_batches_too(one_by_one: Path, tmp_path: Path) -> None:
    paths = {}
    for device, visible, ranks in (("cpu", "", None), ("cuda", "GPU-a", 2)):
        paths[device] = tmp_path / f"{device}.h5"
        seeing(visible, "sample", one_by_one, "--count", 7, "--out", paths[device], ranks=ranks)
        assert info(paths[device])["devices"] == [device]
    assert_same_bits(paths["cpu"], paths["cuda"])


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_a_generation_of_a_gpu_cannot_be_repeated_but_its_updates_can(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    train(out)
    assert "on a GPU these robots do not repeat" in seeing("GPU-a", "verify", out, ranks=2, code=2).stderr
    with open_run(out) as run:
        assert run.machine(0)["gpu"] == "stand-in" and run.machine(0)["gpu_driver"] == "1.0"
    assert "5 updates" in done("verify", out, "--updates", ranks=2).stdout


def test_all_individuals_of_a_gpu_are_compared_if_its_task_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CustomTask, "repeats_on_gpu", True)
    out = tmp_path / "run.h5"
    train(out)
    assert "63 individuals of generations 0, 2, 4: the same bits" in seeing("GPU-a", "verify", out).stdout
    assert "verify --updates works without one" in seeing("", "verify", out, code=2).stderr
    with edited(out) as file:
        file["generations/behavior"][2, 5] += 1e-9
    assert "1 of 21 individuals gave other bits" in seeing("GPU-a", "verify", out, code=1).stderr


@pytest.mark.standing_ranks
def test_a_gpu_that_is_asked_for_and_missing_is_one_sentence(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    refused = train(out, "task.settings.device=cuda", ranks=2, gpus="", code=2)
    lines = [line for line in refused.stderr.splitlines() if line.startswith("ees-mpi:")]
    assert len(lines) == 1 and "no rank sees an NVIDIA GPU" in lines[0]
    assert not out.exists()


@pytest.mark.parametrize(
    ("seen", "drivers"),
    [
        ([["a"], ["a"], ["a"]], {0: "a"}),
        ([["a", "b"], ["a", "b"], ["a", "b"]], {0: "a", 1: "b"}),
        ([["a", "b"]], {0: "a"}),
        ([[], ["a"], ["b"], ["a"]], {1: "a", 2: "b"}),
        ([["b"], ["a"]], {0: "b", 1: "a"}),
        ([[], []], {}),
    ],
)
def test_the_lowest_rank_that_sees_a_gpu_drives_only_it(seen: list[list[str]], drivers: dict[int, str]) -> None:
    assert gpus.drivers(seen) == drivers


def test_cuda_visible_devices_chooses_among_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    have = [gpus.Gpu(f"GPU-{number}{number}", "a GPU", 1, "1.0", number - 1) for number in (1, 2, 3)]
    for text, wanted in (("1", [1]), ("2,0", [2, 0]), ("GPU-33", [2]), ("0,7,1", [0]), ("", []), ("-1", [])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
        assert gpus.chosen(have) == [have[place] for place in wanted]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert gpus.chosen(have) == have
    assert os.path.exists("/dev/nvidia0") or gpus.visible_gpus() == []
