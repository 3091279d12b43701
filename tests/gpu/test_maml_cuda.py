"""MAML on a real GPU: rollouts agree with the CPU at first, updates from the same rollouts agree, runs go on."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from support.program import done, ees, info, sets
from support.small_runs import advanced

from ees_mpi import config
from ees_mpi.maml.evaluators import open_maml
from ees_mpi.maml.outer import learning_tasks, outer_step
from ees_mpi.maml.rollouts import Pairs, TaskRollouts, theta_of
from ees_mpi.ranks import Ranks
from ees_mpi.run.file import open_run
from ees_mpi.run.parts import first_state, open_parts
from ees_mpi.tasks.mujoco.engine import lacking

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(lacking()), reason=f"needs a GPU: {lacking()}"),
    pytest.mark.filterwarnings("ignore"),
]
REPLICA = ("task.engine=mujoco", "task.device=cuda")
SMALL = ("population.size=8", "maml.rollouts=4", "task.observation_share=0.5", "run.evaluate_mean_every=2")

RUN = ("maml.horizon=100", "task.steps=100", "run.generations=3")


def test_the_first_steps_of_an_iteration_agree_with_those_of_cpu_ranks() -> None:
    loaded = config.load("cheetah-maml", (*REPLICA, *SMALL, "maml.horizon=13"))  # graphs do not divide 13
    state, (method, gpu), cpu = first_state(loaded), open_parts(loaded, Ranks()), open_maml(loaded, Ranks(), "cpu")
    for generation in range(2):
        (record, following), (expected, _) = (advanced(method, device, state) for device in (gpu, cpu))
        assert record["valid"].all() and (record["length"] == 2 * 4 * 13).all()
        np.testing.assert_array_equal(record["fitness_of_mean"], expected["fitness_of_mean"])
        for name in ("fitness", "fitness_before", "behavior"):
            np.testing.assert_allclose(record[name], expected[name], atol=2e-3, err_msg=f"{generation} {name}")
        state = following
    gpu.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("maml") / "run.h5"
    done("train", "cheetah-maml", *sets(*REPLICA, *SMALL, *RUN), "--out", path)
    return path


def on_cpu(rollouts: TaskRollouts) -> TaskRollouts:
    return TaskRollouts(*(getattr(rollouts, field.name).cpu() for field in fields(rollouts)))


def test_updates_of_gpu_and_cpu_from_the_same_rollouts_agree() -> None:
    loaded = config.load("cheetah-maml", (*REPLICA, *SMALL, *RUN))
    state, (method, evaluator) = first_state(loaded), open_parts(loaded, Ranks())
    groups = evaluator.evaluate(method.ask(state)).local
    copies = [Pairs(group.index, on_cpu(group.before), on_cpu(group.after)) for group in groups]
    single = [copy[[place]] for copy in copies for place in range(len(copy.index))]
    valid, old = np.ones(loaded.population.size, np.bool_), theta_of(state)
    steps = []
    for parts in (single, copies, groups):
        learning = learning_tasks(loaded, old, parts, valid)
        steps.append(outer_step(loaded, old, learning, len(valid), Ranks())[0].theta - old)
    evaluator.close()
    length = np.linalg.norm(steps[0])
    assert length > 0 and max(np.linalg.norm(step - steps[0]) for step in steps) < 1e-4 * length


def test_a_run_goes_on_with_a_gpu_and_without(trained: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run.h5"
    copy.write_bytes(trained.read_bytes())
    assert info(copy)["devices"] == ["cuda"]
    done("resume", copy, "--generations", 4)
    refused = ees("verify", copy)
    assert refused.returncode == 2 and "the rollouts of its tasks happened once" in refused.stderr
    refused = ees("verify", copy, "--updates")
    assert refused.returncode == 2 and "needs rollouts that files do not keep" in refused.stderr
    on_cpus = sets(*REPLICA, *SMALL, *RUN, "task.device=cpu", "run.generations=5")
    done("train", "cheetah-maml", *on_cpus, "--out", copy, "--resume")
    assert info(copy)["devices"] == ["cpu", "cuda"]
    done("verify", copy, "--generation", 4)
    with open_run(copy) as run:
        assert run.generations == 5 and np.isfinite(run["fitness"][:]).all()
        assert (np.diff(run["mean"][:], axis=0) != 0).any(axis=(1, 2)).all()


@pytest.mark.parametrize(("robot", "steps"), [("cheetah", 5), ("ant", 2)])  # the ant parts from MuJoCo when it touches
def test_maml_walks_with_gymnasiums_robots_too(robot: str, steps: int) -> None:
    text = config.read_source("cheetah-maml").replace('name = "cheetah"', f'name = "mujoco"\nmodel = "{robot}"')
    loaded = config.parse(text, (*SMALL, "task.device=cuda", f"maml.horizon={steps}"))
    state, (method, gpu), cpu = first_state(loaded), open_parts(loaded, Ranks()), open_maml(loaded, Ranks(), "cpu")
    (record, _), (expected, _) = (advanced(method, device, state) for device in (gpu, cpu))
    np.testing.assert_allclose(record["fitness_before"], expected["fitness_before"], atol=5e-3)
    gpu.close()
