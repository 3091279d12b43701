"""`ees_mpi.Strategy` under mpirun: the same bits as alone; a fault on one rank ends all ranks with one sentence."""

from pathlib import Path

import numpy as np
import pytest
from support.processes import all_ended
from support.program import CHECKOUT, TESTS, done, ees, info, python, run, train

import ees_mpi
from ees_mpi.run.parts import first_state

EXAMPLES = CHECKOUT / "jobs" / "examples"
PROGRAM = TESTS / "support" / "ask_tell_loop.py"
SEVERAL = TESTS / "support" / "several_loops.py"
NOISE = "config={'noise': {'size': 5000}}"


def shortened(name: str, folder: Path, *changes: tuple[str, str]) -> Path:
    """Write a quick copy of an example; each change is a text that it has once, and another one."""
    text = (EXAMPLES / name).read_text()
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_the_toy_has_the_same_digest_alone_and_on_three_ranks(tmp_path: Path) -> None:
    toy = shortened("ask_tell.py", tmp_path, ("range(101)", "range(11)"), ("size=200,", f"size=200, {NOISE},"))
    alone, three = (ees(toy, ranks=ranks) for ranks in (None, 3))
    assert alone.returncode == three.returncode == 0, three.stderr
    digest = alone.stdout.splitlines()[-1]
    assert len(digest) == 64 and three.stdout.splitlines().count(digest) == 3 and three.stderr == ""
    assert len((EXAMPLES / "ask_tell.py").read_text().splitlines()) <= 25


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_matrix_products_in_parts_of_a_chunk_have_the_same_bits_and_a_recorded_loop_continues(tmp_path: Path) -> None:
    fewer = (("STEPS, DT = 16, 200,", "STEPS, DT = 16, 5,"), ("range(20)", "range(4)"))
    program = shortened("cart_pole.py", tmp_path, *fewer, ("std=0.1,", f"std=0.1, {NOISE},"))
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    for ranks, out in ((None, one), (None, one), (3, two), (None, two)):
        done(program, out, ranks=ranks)
    assert info(one)["generations"] == 8 and info(one)["state_sha256"] == info(two)["state_sha256"]
    assert info(two)["ranks"] == 1 and info(two)["complete"]


@pytest.mark.standing_ranks
def test_two_loops_with_weights_of_the_program_share_one_table_and_have_the_same_bits_on_1_2_and_3_ranks() -> None:
    alone, *several = (done(SEVERAL, "none", ranks=ranks).stdout for ranks in (None, 2, 3))
    assert len(alone.split()) == 3 and several == [2 * alone, 3 * alone]
    one = run(python(SEVERAL, "none", ranks=1))
    assert one.returncode == 0 and one.stdout == alone, one.stderr


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("leaves", "ees-mpi: rank 1 has left the loop; make the same calls on all ranks"),
        ("order", "ees-mpi: the ranks have called different objects, [1, 2] by their order; make the same calls"),
        ("weights", "ees-mpi: tell: the array of weights is not the same on all ranks"),
    ],
)
def test_a_rank_that_leaves_or_mistakes_one_of_several_loops_ends_all_with_one_sentence(
    fault: str, sentence: str
) -> None:
    ended = run(python(SEVERAL, fault, ranks=2))
    assert ended.returncode != 0 and ended.stderr.count(sentence) == 1, ended.stderr
    assert ended.stderr.count("ees-mpi: ") == 1 and ended.stdout == ""


def test_a_fault_on_one_rank_ends_all_ranks_with_one_sentence(tmp_path: Path) -> None:
    out, sentence = tmp_path / "run.h5", "ees-mpi: tell: expected a behaviour of shape (7, 2), got (6, 2)"
    ended = run(python(PROGRAM, out, ranks=3))
    assert ended.returncode != 0 and ended.stderr.count(sentence) == 1 and ended.stderr.count("ees-mpi: ") == 1
    assert ended.stderr.count(f'{PROGRAM}", line ') >= 1 and "ees_mpi/ranks" not in ended.stderr
    assert all_ended(out) and info(out)["generations"] == 2 and not info(out)["complete"]


RECORDED = """
import os
import sys
import numpy as np
import ees_mpi

path = "run.h5" if os.environ["OMPI_COMM_WORLD_RANK"] == sys.argv[1] else None
try:
    with ees_mpi.Strategy(np.ones(3), size=4, std=0.1, config={"noise": {"size": 5000}}, record=path) as es:
        es.state = es.state
except ees_mpi.ConfigError as error:
    sys.stdout.write(f"{error}\\n")
"""


@pytest.mark.standing_ranks
@pytest.mark.parametrize(("rank", "said"), [(0, "a recorded run has a fixed history"), (1, "rank 0 writes the file")])
def test_all_ranks_know_whether_a_loop_is_recorded(rank: int, said: str, inside: Path) -> None:
    (inside / "recorded.py").write_text(RECORDED)
    assert done(inside / "recorded.py", rank, ranks=2).stdout.count(said) == 2


def test_a_loop_with_several_starts_has_the_bits_of_train(tmp_path: Path) -> None:
    pytest.importorskip("pybullet", exc_type=ImportError)
    small = ("task.steps=4", "task.hidden=[4]", "population.size=6", "noise.size=20000", "task.observation_share=0")
    several = ("task.rollouts=2", "task.starts=own", "objective.name=repeatable", "run.generations=3", "run.seed=5")
    out = tmp_path / "loop.h5"
    with ees_mpi.open_run(train(tmp_path / "run.h5", "cheetah-maxvar", *small, *several)) as run:
        task, zero = run.config.task, np.zeros(run.config.task.observation_dim)
        sections = {name: part for name, part in run.config.sections().items() if name != "task"}
        first = first_state(run.config).mean[0]
        with ees_mpi.Strategy(first, config=sections, rollouts=2, starts="own", record=out) as es:
            for _ in range(3):
                places = [
                    [task.open(seed).evaluate(0, one, zero, zero + 1, False).behavior for seed in own]
                    for one, own in zip(es.ask(), es.seeds.tolist(), strict=True)
                ]
                es.tell(places)
        with ees_mpi.open_run(out) as loop:
            for name in ("mean", "behavior", "behavior_by_start"):
                np.testing.assert_array_equal(run[name][:], loop[name][:])
            np.testing.assert_array_equal(run.state_arrays()["mean"], loop.state_arrays()["mean"])
    assert "the same states" in done("verify", out, "--updates").stdout
