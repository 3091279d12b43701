import os
from collections.abc import Callable

import pytest
from support.program import ees

from ees_mpi import config
from ees_mpi.commands import plan
from ees_mpi.config import Config
from ees_mpi.errors import TaskError
from ees_mpi.generation.costs import BYTE, Costs, on_all_cores

ANT = config.load("ant-maxent")  # N = 10,000
OTHER = {"table": 1 << 30, "timed": "rollouts"}
COSTS = Costs(
    rollout=0.3, split=1.0, fixed=0.02, commit=0.01, resident=30 << 20, working=lambda rows: 15 << 20, **OTHER
)


def test_the_plan_of_the_paper_adds_up() -> None:
    predicted = plan.predict(ANT, COSTS, 275)
    assert predicted.evaluate == 37 * 0.3  # the rank with the most individuals sets the pace
    assert predicted.update == 0.02 + 1.0 / 275
    assert predicted.generation == sum([predicted.evaluate, predicted.gather, predicted.update, predicted.commit])
    text = "\n".join(plan.describe(plan.estimate(ANT, 275, 40, COSTS), COSTS))
    assert "275 on 7 nodes" in text and "1024 MiB noise table" in text and "not measured" in text
    assert "of the fastest and of the slowest core" in text
    short = plan.estimate(ANT, 1, 1, Costs(36e-6, 0.0, 0.0, 0.0, 0, lambda rows: 0, **OTHER))
    assert "0:00:36 for 100 generations, 0.01 core-hours" in "\n".join(plan.describe(short, COSTS))


def test_a_slow_node_costs_whole_rounds_of_rollouts() -> None:
    # One individual for each rank: the slow node needs twice the time for its own.
    assert plan.predict(ANT, COSTS, 10_000, 160, slow_node=2.0).evaluate == pytest.approx(2 * 0.3)
    # Two for each rank: the slow node makes one round in that time, and the others have to make a third one.
    assert plan.predict(ANT, COSTS, 5_000, 100, slow_node=2.0).evaluate >= 3 * 0.3
    # Many for each rank: nearly the same work for the speed of six and a half nodes instead of seven.
    assert plan.predict(ANT, COSTS, 70, 7, slow_node=2.0).evaluate == pytest.approx(143 * 0.3 * 7 / 6.5, rel=0.03)


def test_more_nodes_cost_more_hops_and_more_ranks_no_more_messages() -> None:
    hops = [plan.predict(ANT, COSTS, 10_000, nodes).gather for nodes in (2, 4, 1024)]
    assert hops[1] - hops[0] == pytest.approx((hops[2] - hops[0]) / 9)
    assert plan.predict(ANT, COSTS, 1000, 2).gather == hops[0]


def meet(config: Config, ready: Callable[[], object]) -> tuple[float, float]:
    """Return the size of the config; `ready` returns only if every core has a process."""
    ready()
    return float(config.population.size), float(os.getpid())


def fail(config: Config, ready: Callable[[], object]) -> tuple[float]:
    raise TaskError("the rollout failed")


@pytest.mark.slow
def test_rollouts_are_timed_in_one_process_per_core_at_the_same_time_and_their_error_is_that_of_the_plan() -> None:
    found = on_all_cores(config.load("interference-maxvar", ["population.size=20"]), meet)
    assert len(set(found[:, 1])) == len(os.sched_getaffinity(0)) and set(found[:, 0]) == {20.0}
    with pytest.raises(TaskError, match="the rollout failed"):
        on_all_cores(config.load("interference-maxvar"), fail)


def test_more_ranks_stop_paying_at_the_latest_with_one_individual_each() -> None:
    assert plan.saturation(ANT, COSTS) == 10_000
    slow_commit = Costs(0.3, 1.0, 0.02, 30.0, 0, lambda rows: 0, **OTHER)
    assert plan.saturation(ANT, slow_commit) < 200


def test_the_size_of_a_generation_is_that_of_its_datasets() -> None:
    individual = 2 * 8 + 8 + 4 + 1 + 8 + 1 + 4
    assert plan.row_bytes(ANT) == pytest.approx(10_000 * individual + 75_272 * 4 + 28 * 16, rel=0.01)


def test_behaviours_from_several_starts_are_gathered_and_logged() -> None:
    one, three = (config.load("ant-maxent", [f"task.rollouts={count}"]) for count in (1, 3))
    more = 8 * 10_000 * 3 * 2  # bytes of three places for each individual
    assert plan.row_bytes(three) - plan.row_bytes(one) == more
    seconds = [plan.predict(each, COSTS, 100).gather for each in (one, three)]
    assert seconds[1] - seconds[0] == pytest.approx(more * BYTE)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_noise")
def test_plan_on_the_command_line() -> None:
    done = ees("plan", "ant-maxent", "--set", "task.steps=20", "--set", "population.size=400", "--ranks", 8)
    assert done.returncode == 0, done.stderr
    for word in ("memory per rank", "memory per node", "core-hours", "file", "more ranks", "extrapolated"):
        assert word in done.stdout


def test_the_plan_of_maml_counts_whole_tasks() -> None:
    maml = config.load("cheetah-maml")
    timed = {"table": 0, "timed": "the rollouts of one task", "per_row": 10.0, "gathered": 0}
    costs = Costs(7.0, 0.0, 0.01, 0.02, 300 << 20, lambda rows: 0, **timed)
    predicted = plan.predict(maml, costs, 16)
    assert (predicted.evaluate, predicted.update) == (3 * 7.0, 0.01 + 3 * 10.0)
    text = "\n".join(plan.describe(plan.estimate(maml, 16, 16, costs), costs))
    assert "of which 0 MiB noise table" in text and "rollouts of one task" in text
