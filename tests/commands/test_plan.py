import json

import pytest
from support.program import done, ees, sets

from ees_mpi import config
from ees_mpi.commands import plan
from ees_mpi.commands.plan import Costs

OTHER = {"table": 1 << 30, "timed": "rollouts"}
COSTS = Costs(
    rollout=0.3, split=1.0, fixed=0.02, commit=0.01, resident=30 << 20, working=lambda rows: 15 << 20, **OTHER
)


def test_the_plan_of_the_paper_adds_up() -> None:
    ant = config.load("ant-maxent")
    predicted = plan.predict(ant, COSTS, 275)
    assert predicted.evaluate == 37 * 0.3  # the rank with the most individuals sets the pace
    assert predicted.update == 0.02 + 1.0 / 275
    assert predicted.generation == sum([predicted.evaluate, predicted.gather, predicted.update, predicted.commit])
    text = "\n".join(plan.describe(plan.estimate(ant, 275, 40, COSTS), COSTS))
    assert "275 on 7 nodes" in text and "1024 MiB noise table" in text and "not measured" in text
    assert "give or take" in text


def test_a_slow_rollout_and_a_slow_node_cost_what_greedy_dealing_costs() -> None:
    ant = config.load("ant-maxent")
    assert plan.predict(ant, COSTS, 10_000, 160, slowest=3.0).evaluate == pytest.approx(3 * 0.3)  # all begin together
    assert plan.predict(ant, COSTS, 100, 2, slowest=3.0).evaluate == pytest.approx(100 * 0.3, rel=0.01)  # one of many
    # Of seven nodes one is half as fast: the same work for the speed of six and a half.
    assert plan.predict(ant, COSTS, 275, 7, slow_node=2.0).evaluate == pytest.approx(37 * 0.3 * 7 / 6.5)
    assert plan.predict(ant, COSTS, 10_000, 160, slow_node=2.0).evaluate == pytest.approx(2 * 0.3)
    # More nodes cost more hops, and more ranks no more messages.
    hops = [plan.predict(ant, COSTS, 10_000, nodes).gather for nodes in (2, 4, 1024)]
    assert hops[1] - hops[0] == pytest.approx((hops[2] - hops[0]) / 9)
    assert plan.predict(ant, COSTS, 1000, 2).gather == hops[0]


def test_the_plan_as_data_has_the_numbers_of_the_text() -> None:
    facts = plan.estimate(config.load("ant-maxent"), 275, 40, COSTS)
    assert (facts["nodes"], facts["rank_bytes"], facts["node_bytes"]) == (7, 45 << 20, (45 << 20) * 40 + (1 << 30))
    phases = sum(facts[f"{phase}_seconds"] for phase in ("evaluate", "gather", "update", "commit"))
    assert facts["generation_seconds"] == pytest.approx(phases)
    assert facts["core_hours"] == pytest.approx(275 * phases * facts["generations"] / 3600)


def test_more_ranks_stop_paying_at_the_latest_with_one_individual_each() -> None:
    ant = config.load("ant-maxent")
    assert plan.saturation(ant, COSTS) == 10_000
    slow_commit = Costs(0.3, 1.0, 0.02, 30.0, 0, lambda rows: 0, **OTHER)
    assert plan.saturation(ant, slow_commit) < 200


def test_the_size_of_a_generation_is_that_of_its_datasets() -> None:
    ant = config.load("ant-maxent")
    individual = 2 * 8 + 8 + 4 + 1 + 8 + 1 + 4
    assert plan.row_bytes(ant) == pytest.approx(10_000 * individual + 75_272 * 4 + 28 * 16, rel=0.01)


def test_plan_on_the_command_line() -> None:
    done = ees("plan", "ant-maxent", "--set", "task.steps=20", "--set", "population.size=400", "--ranks", 8)
    assert done.returncode == 0, done.stderr
    for word in ("memory per rank", "memory per node", "core-hours", "file", "more ranks", "extrapolated"):
        assert word in done.stdout
    assert ees("plan", "ant-maxent", "--ranks", 0).returncode == 2


def test_the_plan_of_maml_counts_whole_tasks() -> None:
    maml = config.load("cheetah-maml")
    costs = Costs(
        7.0,
        0.0,
        0.01,
        0.02,
        300 << 20,
        lambda rows: 0,
        table=0,
        timed="the rollouts of one task",
        per_row=10.0,
        gathered=0,
    )
    predicted = plan.predict(maml, costs, 16)
    assert (predicted.evaluate, predicted.update) == (3 * 7.0, 0.01 + 3 * 10.0)
    text = "\n".join(plan.describe(plan.estimate(maml, 16, 16, costs), costs))
    assert "of which 0 MiB noise table" in text and "rollouts of one task" in text


def test_plan_of_maml_on_the_command_line() -> None:
    small = ("maml.horizon=5", "maml.rollouts=2", "population.size=4")
    done = ees("plan", "cheetah-maml-laptop", *sets(*small), "--ranks", 2)
    assert done.returncode == 0, done.stderr
    assert "the rollouts of one task" in done.stdout


def test_plan_prints_one_json_object() -> None:
    facts = json.loads(done("plan", "interference-maxvar", *sets("population.size=20"), "--ranks", 2, "--json").stdout)
    assert facts["ranks"] == 2 and facts["hours"] > 0 and facts["file_bytes"] > 0
