"""The replay of a rollout that a GPU has evaluated shows another one, on the CPU, and says so."""

import json
from pathlib import Path

import numpy as np
from support.program import done, train
from support.run_files import edited

SMALL = ("population.size=6", "task.steps=10", "task.hidden=[8,8]", "noise.size=100000", "run.generations=2")


def test_a_replay_of_a_gpu_rollout_gives_the_distance_to_the_log(tmp_path: Path) -> None:
    run = train(tmp_path / "run.h5", "gymnasium-cheetah-maxent", *SMALL)
    with edited(run) as file:
        machine = json.loads(file["sessions/machine"][0])
        del file["sessions/machine"]
        text = np.array([json.dumps({**machine, "device": "cuda"}).encode()])
        file.create_dataset("sessions/machine", data=text, chunks=(1,), fletcher32=True)
        file["generations/behavior"][1, 2, 0] += 0.25
    printed = done("replay", run, "--individual", 2).stdout
    assert "the distance is 0.25" in printed and "evaluated on a GPU" in printed
    assert "the same bits" in done("replay", run, "--individual", 3).stdout
