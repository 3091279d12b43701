"""`ees_mpi.Strategy`: the algorithm in a loop of the user has the bits of training, and clear errors."""

import gc
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.program import CHECKOUT, done, info, refusal
from support.small_runs import trained

import ees_mpi
from ees_mpi import TaskError
from ees_mpi.config import load
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.store.lock import path_of
from ees_mpi.store.writer import Writer
from ees_mpi.strategy import density
from ees_mpi.strategy.objectives.maxent import MaxEnt
from ees_mpi.strategy.objectives.maxvar import MaxVar
from ees_mpi.strategy.optimizers.adam import Adam
from ees_mpi.tasks.interference import pattern

NOISE = {"noise": {"size": 5000}, "run": {"fsync": False}}
SMALL = {**NOISE, "population": {"name": "normal", "size": 20, "std": 0.5}, "objective": {"name": "maxent"}}
README_LOOP = re.findall(r"```python\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)[0]
TINY = ("population.size=20", "run.generations=6", "noise.size=5000", "run.fsync=false")


def simulate(z: NDArray[Any]) -> NDArray[Any]:
    """Return the behaviours of the interference task."""
    return np.array([[pattern(float(x))] for x in z[:, 0]]).reshape(-1, 1)


def plane(z: NDArray[Any]) -> NDArray[Any]:
    return np.stack([np.sin(3.0 * z[:, 0]), z[:, 1] * z[:, 2]], axis=1)


def small(mean: Any = (1.0,), **more: Any) -> ees_mpi.Strategy:
    return ees_mpi.Strategy(mean, **{"config": SMALL, **more})


def run(es: ees_mpi.Strategy, generations: int, behave: Any = simulate) -> str:
    for _ in range(generations):
        behavior = behave(es.ask())
        es.tell(behavior, behavior[:, 0])
    return es.state.digest().hex()


def test_the_interference_task_in_a_loop_has_the_bits_of_the_preset() -> None:
    config = load("interference-maxent", TINY)
    with small(config=config) as es:
        assert run(es, 6) == trained(config).digest().hex()
        assert es.state.generation == 6 and es.mean.shape == (1,) and es.metrics["invalid_share"] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        es.mean[0] = 0.0


def test_metrics_are_computed_when_they_are_wanted_and_are_those_of_a_recorded_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Outcomes] = []
    entropy = density.entropy
    monkeypatch.setattr(density, "entropy", lambda *words: calls.append(words[0]) or entropy(*words))
    with small() as es, small(record=tmp_path / "run.h5") as recorded:
        assert es.metrics == {}
        run(es, 2)
        assert not calls
        run(recorded, 2)
        wanted, also = (
            sorted(pair for pair in each.metrics.items() if "seconds" not in pair[0]) for each in (es, recorded)
        )
        assert repr(wanted) == repr(also) and "entropy" in es.metrics and len(calls) == 3


def test_parts_are_names_dicts_settings_objects_or_a_config_and_mean_the_same() -> None:
    whole = run(small(), 3)
    other = {"population": {"name": "normal", "size": 4, "std": 1.0}, "objective": {"name": "fitness"}}
    for objective in ("maxent", {"name": "maxent", "bandwidth": "scott"}, MaxEnt()):
        assert run(small(config={**NOISE, **other}, objective=objective, size=20, std=0.5, seed=0), 3) == whole
    assert run(small(seed=1), 3) != whole
    assert run(small(optimizer={"name": "ascent", "lr": 0.1}), 3) != whole


def test_an_objective_may_be_the_function_itself() -> None:
    surrogates = pytest.importorskip("ees_mpi.strategy.scg.surrogates")
    named = {"name": "custom", "function": "ees_mpi.strategy.scg.surrogates:maxvar"}
    assert run(small(objective=surrogates.maxvar), 2) == run(small(objective=named), 2)


@pytest.mark.parametrize(
    ("mean", "parts"),
    [
        (np.ones(3), {"objective": {"name": "custom", "function": "ees_mpi.strategy.scg.surrogates:maxvar"}}),
        (np.eye(3)[:2], {"population": {"name": "mixture", "size": 20, "std": 0.5, "components": 2}}),
    ],
)
def test_a_recorded_run_follows_from_its_outcomes(mean: NDArray[Any], parts: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    with small(mean, record=out, **parts) as es:
        final = run(es, 4, plane)
        assert es.mean.shape == mean.shape and not np.array_equal(es.mean, mean)
        es.ask()
        with pytest.raises(ees_mpi.ConfigError, match="a run file has the weights of its objective"):
            es.tell(weights=np.ones(20))
    assert info(out)["state_sha256"] == final and "the same states" in done("verify", "--updates", out).stdout


def test_parts_of_a_chunk_are_told_as_a_list_and_have_the_bits_of_one_array() -> None:
    es, sizes = small(), []
    for _ in range(3):
        parts = list(es.ask(chunk=3))
        sizes += [len(part) for part in parts]
        es.tell([simulate(part) for part in parts], [simulate(part)[:, 0] for part in parts])
    assert sizes == 3 * [3, 3, 3, 3, 3, 3, 2] and es.state.digest().hex() == run(small(), 3)


def test_standard_es_needs_no_behaviour_and_others_say_that_they_do() -> None:
    digests = set()
    for told in ("both", "chunks", "fitness"):
        es = small(objective="fitness")
        parts = [simulate(part)[:, 0] for part in es.ask(chunk=3)] if told == "chunks" else simulate(es.ask())[:, 0]
        es.tell(parts if told == "both" else None, parts)
        digests.add(es.state.digest())
    assert len(digests) == 1
    es = small(objective="maxvar")
    with pytest.raises(TaskError, match="not None"):
        es.tell(fitness=simulate(es.ask())[:, 0])


def test_rows_that_are_not_finite_or_not_valid_have_weight_0() -> None:
    states = []
    for missing in ({"valid": np.arange(20) > 2}, {}):
        es = small(objective="maxvar")
        behavior = simulate(es.ask())
        behavior[:3] = 77.0 if missing else [[np.nan], [1e308], [-1e308]]
        es.tell(behavior, **missing)
        states.append(es.state.digest())
        assert es.metrics["invalid_share"] == pytest.approx(0.15)
    assert states[0] == states[1]


def test_a_state_is_saved_and_loaded_as_npz(tmp_path: Path) -> None:
    es, again = small(), small()
    run(es, 2)
    np.savez(tmp_path / "state.npz", **es.state.arrays())
    with np.load(tmp_path / "state.npz") as file:
        again.state = file
    assert run(again, 2) == run(es, 2)
    again.state = arrays = es.state.arrays()
    arrays["mean"] += 1  # it is the user's
    assert again.state.digest() != ees_mpi.generation.State.from_arrays(arrays).digest()
    for wrong in (es.state, {**es.state.arrays(), "mean": 1}):
        with pytest.raises(ees_mpi.ConfigError, match="state: mean: expected"):
            small(np.ones(2)).state = wrong


def observing(es: ees_mpi.Strategy, chunk: int | None) -> str:
    for _ in range(3):
        parts = [es.ask()] if chunk is None else es.ask(chunk)
        behavior, seen = [], []
        for part in parts:
            mean, std = es.normaliser
            behavior.append((part[:, :2] - mean) / std)
            seen += [np.outer([1.0, 2.0], row[:2]) for row in part[es.sampled]]
        es.tell(behavior if chunk else behavior[0], observations=seen)
    return es.state.digest().hex()


def test_observations_of_the_sampled_feed_the_normaliser() -> None:
    options = {"observation_dim": 2, "observation_share": 0.3}
    es = small(np.ones(3), **options)
    whole = observing(es, None)
    assert observing(small(np.ones(3), **options), 6) == whole
    count = es.state.observations[0]
    assert 0 < count < 120 and count % 2 == 0
    np.testing.assert_allclose(es.normaliser[0], es.state.observations[1:3] / count)
    es.ask()
    with pytest.raises(TaskError, match=r"expected observations= with one array \[T, 2\] for each of the"):
        es.tell(np.ones((20, 2)))


def test_weights_of_the_caller_make_the_update_that_the_objective_makes_with_the_same_numbers() -> None:
    es, own = (small(np.ones(3), objective="maxvar", observation_dim=2, observation_share=0.3) for _ in range(2))
    for _ in range(3):
        behavior, again = plane(es.ask()), plane(own.ask())
        seen = [np.ones((4, 2))] * int(es.sampled.sum())
        whole = own.gather(again).astype(np.float64)
        none = np.zeros(20, np.int64), np.ones(20, np.bool_), np.zeros((0, 1))
        weights = MaxVar().weights(Outcomes(whole, np.zeros(20), *none), {}, Ranks())
        es.tell(behavior, observations=seen)
        own.tell(weights=weights, observations=seen)
        assert own.metrics["gradient_norm"] == es.metrics["gradient_norm"] and "entropy" not in own.metrics
    assert own.state.digest() == es.state.digest()


def test_gather_keeps_type_shape_and_order_and_takes_the_parts_of_a_chunk() -> None:
    es = small()
    assert es.rows.size == 0
    parts = list(es.ask(chunk=3))
    assert es.rows.tolist() == list(range(20))
    whole = es.gather(parts)
    assert whole.dtype == np.float32 and whole.shape == (20, 1)
    np.testing.assert_array_equal(whole, es.ask())
    assert es.gather(es.ask()[:, 0] > 1).dtype == np.bool_ and es.gather(np.zeros((20, 2, 3))).shape == (20, 2, 3)


def test_strategies_share_a_noise_table_of_the_same_seed_and_size_and_free_it_with_the_last_one() -> None:
    first, second, other = (
        small(seed=seed, config={**SMALL, "noise": {"size": 5000, "seed": 7}}) for seed in (0, 1, 1)
    )
    third = small(seed=1)
    table = weakref.ref(first._method.noise)
    assert second._method.noise is table() is other._method.noise is not third._method.noise
    gc.disable()  # nothing waits for the collector: a table may have gigabytes
    try:
        del first, other
        assert table() is not None
        run(second, 1)
        del second
        assert table() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("mean", "population"),
    [
        (np.ones(3), {"name": "diagonal", "size": 20, "std": 0.5}),
        (np.eye(3)[:2], {"name": "mixture", "size": 20, "std": 0.5, "components": 2}),
    ],
)
def test_the_draw_as_data_gives_the_individuals_of_ask_and_tell_is_the_same(
    mean: NDArray[Any], population: dict[str, Any]
) -> None:
    asking, drawing = (small(mean, population=population) for _ in range(2))
    for _ in range(3):
        z = asking.ask()
        drawn = drawing.draw()
        rows = drawing.noise[drawn.offset[:, None] + np.arange(3)]
        mine = drawn.means[drawn.parent] + drawn.sign[:, None] * drawn.std * rows
        np.testing.assert_allclose(mine, z, rtol=1e-6, atol=1e-6)
        assert drawing.rows.tolist() == list(range(len(z))) and drawing.seeds.shape == asking.seeds.shape
        asking.tell(plane(z))
        drawing.tell(plane(z))
    assert asking.state.digest() == drawing.state.digest() and len(np.unique(drawn.parent)) == len(drawn.means)
    assert np.shape(drawn.std) == ((3,) if population["name"] == "diagonal" else ())
    assert not drawing.noise.flags.writeable and drawing.draw(chunk=3).sign.shape == drawn.sign.shape


OWN_POPULATION = """
from ees_mpi.strategy.populations.normal import Normal

class Own(Normal, frozen=True):
    components: int = 1
"""


def test_the_draw_of_another_population_is_refused(inside: Path) -> None:
    (inside / "with_own_population.py").write_text(OWN_POPULATION)
    named = {"name": "custom", "function": "with_own_population:Own", "size": 20, "std": 0.5}
    es = small(population=named)
    with pytest.raises(ees_mpi.ConfigError, match=r"normal, diagonal or mixture population, got Custom.*use `es\.ask`"):
        es.draw()


WRONG_CALLS = [
    (r"expected fitness of shape \(20,\), got \(0,\)", lambda es: es.tell(simulate(es.ask()), fitness=[])),
    (r"expected valid of shape \(20,\), got \(0,\)", lambda es: es.tell(simulate(es.ask()), valid=[])),
    ("gather: expected a call of ask before it", lambda es: es.gather(np.ones(20))),
    (r"gather: expected an array of 20 rows, got one of shape \(19,\)", lambda es: es.gather(es.ask()[1:, 0])),
    ("gather: expected an array of numbers, got one of object", lambda es: es.gather([None] * len(es.ask()))),
    (r"expected 20 finite weights.*got an array of shape \(19,\)", lambda es: es.tell(weights=es.ask()[1:, 0])),
    ("expected 20 finite weights.*not finite", lambda es: es.tell(weights=es.ask()[:, 0] * np.nan)),
    ("expected a call of ask before it", lambda es: es.tell(np.ones((20, 1)))),
    (r"expected a behaviour of shape \(20, B\), got \(19, 1\)", lambda es: es.tell(simulate(es.ask())[1:])),
    ("11 of 20 rollouts are invalid", lambda es: es.tell(es.ask(), valid=np.arange(20) > 10)),
    ("numbers that fit together: .*not None", lambda es: es.tell([[1.0]] * (len(es.ask()) - 1) + [[None]])),
]


HALVES = [{"name": "maxent", "share": 0.5}, {"name": "fitness", "share": 0.5}]


@pytest.mark.parametrize("objective", ["fitness", {"name": "blend", "parts": HALVES}])
def test_an_objective_of_fitness_refuses_outcomes_without_one(objective: Any) -> None:
    es = small(objective=objective)
    before = es.state.digest()
    with pytest.raises(TaskError, match=r"the objective needs a fitness .* tell\(behavior, fitness\)"):
        es.tell(simulate(es.ask()))
    assert es.state.digest() == before


@pytest.mark.parametrize(("message", "call"), WRONG_CALLS)
def test_a_wrong_call_of_tell_is_one_sentence_and_changes_nothing(message: str, call: Any) -> None:
    es = small()
    before = es.state.digest()
    with pytest.raises(TaskError, match=message):
        call(es)
    assert es.state.digest() == before and es.rank == 0
    run(es, 1)


@pytest.mark.parametrize(
    ("mean", "more", "message"),
    [
        (3, {}, r"mean: expected an array \[D\], such as np.zeros\(D\), or \[K, D\]; got 3"),
        ([], {}, r"mean: expected \[D\] or \[K, D\] finite numbers, got an array of shape \(0,\)"),
        (np.ones((2, 3)), {}, r"mean: expected the shape \(1, 3\)"),
        ([1.0], {"record": "runs/"}, "record runs/: this is a folder; expected the name of a file"),
        ([1.0], {"objective": "maxant"}, "objective.name: unknown name 'maxant'; did you mean"),
        ([1.0], {"optimizer": Adam}, "optimizer: expected a name, a dict, a settings object or a class of yours, got"),
        ([1.0], {"objective": "repeatable"}, "repeatable.*task.rollouts = 2 or more, got 1"),
        ([1.0], {"config": "cheetah-maml"}, "expected an evolution strategy, got method 'maml'"),
        (np.ones(4950), {}, "noise.size: expected at least 5049, for 100 noise vectors of 4950 parameters; got 5000"),
    ],
)
def test_wrong_settings_are_refused(mean: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ees_mpi.ConfigError, match=message):
        small(mean, **more)


@pytest.mark.slow
def test_a_loop_that_was_killed_resumes_with_the_same_bits(tmp_path: Path) -> None:
    whole = run(small(), 6)
    out = tmp_path / "run.h5"
    es = small(record=out, generations=6)
    run(es, 3)
    es.ask()
    assert es._prepared
    es._prepared.close(fold=False)  # as the death of the process does
    with ees_mpi.Strategy.resume(out) as again:
        assert again.generation == again.state.generation == 3
        run(again, 2)
    with ees_mpi.Strategy.resume(out) as again:
        assert run(again, 1) == whole
        with pytest.raises(ees_mpi.ConfigError, match="a recorded run has a fixed history"):
            again.state = es.state
    assert info(out)["generations"] == 6 and info(out)["sessions"] == 3 and info(out)["complete"]
    with pytest.raises(ees_mpi.RunFileError, match=r"exists already; Strategy.resume continues it, overwrite=True"):
        small(record=out)
    with small(record=out, overwrite=True) as es:
        run(es, 1)
    assert info(out)["generations"] == 1


def test_a_loop_that_ended_with_an_exception_is_not_complete(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    with pytest.raises(ZeroDivisionError), small(record=out) as es:
        run(es, 2)
        raise ZeroDivisionError
    assert info(out)["generations"] == 2 and not info(out)["complete"]
    for call in (es.ask, lambda: es.tell(np.ones((20, 1)))):
        with pytest.raises(ees_mpi.LaunchError, match="this object is closed"):
            call()


def test_a_resume_that_fails_does_not_keep_the_file_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run.h5"
    es = small(record=out, generations=4)
    run(es, 2)
    es.close(finished=False)
    with pytest.raises(ees_mpi.ConfigError, match="has all of its 2 generations; expected more"):
        ees_mpi.Strategy.resume(out, generations=2)
    assert not path_of(out).exists()
    with monkeypatch.context() as full:
        full.setattr(Writer, "begin_session", lambda *_: (_ for _ in ()).throw(OSError(28, "no room")))
        with pytest.raises(ees_mpi.RunFileError, match="no room"):
            ees_mpi.Strategy.resume(out)
    assert not path_of(out).exists()
    with ees_mpi.Strategy.resume(out) as again:
        assert run(again, 2) == run(small(), 4)


@pytest.mark.slow
def test_commands_work_on_a_recorded_run_if_they_do_not_need_the_task(tmp_path: Path, finished: Path) -> None:
    out = tmp_path / "run.h5"
    with small(np.ones(3), record=out) as es:
        run(es, 3, plane)
    done("report", out, "-o", tmp_path / "report.html")
    done("info", out, out)
    done("metrics", out)
    done("export", out, "--csv", "-o", tmp_path / "run.csv")
    done("figure", "plane", out, "-o", tmp_path / "figure.png")
    with small(np.ones(3), record=tmp_path / "other.h5", seed=1) as es:
        run(es, 3, plane)
    done("compare", "--metric", "entropy_fixed", out, "--against", tmp_path / "other.h5")
    sentence = "the task of this run was the user's own loop (ees_mpi.Strategy), so only that program can"
    for words in (["verify"], ["replay"], ["sample", "--count", "4"], ["resume", "--generations", "9"]):
        code, said = refusal(*words, out)
        assert code == 3 and sentence in said, said
    with pytest.raises(ees_mpi.ConfigError, match="its task is interference, not a loop"):
        ees_mpi.Strategy.resume(finished)


def test_the_stall_limit_holds_inside_tell_only(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    monkeypatch.setattr(Ranks, "set_stall_limit", lambda ranks, seconds: limits.append(seconds))
    monkeypatch.setattr(Ranks, "check_same", lambda ranks, *rest: limits.append(-1.0))
    es = small(config={**SMALL, "run": {"stall_minutes": 2.0}})
    assert limits[-1] != 120.0 and 0 in limits
    limits.clear()
    es.tell(simulate(es.ask()))
    assert limits == [120.0, -1.0, 0]  # the comparison of the states is inside


@pytest.mark.slow
@pytest.mark.usefixtures("quick_noise")
def test_the_examples_of_the_page_run(inside: Path) -> None:
    page = (CHECKOUT / "ees_mpi" / "docs" / "ask_tell.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 5 and len(blocks[0].splitlines()) <= 10
    assert blocks[0] == README_LOOP
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)


@pytest.mark.slow
def test_the_torch_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("array_api_compat")
    text = (CHECKOUT / "jobs" / "examples" / "torch_loop.py").read_text()
    exec(text.replace("range(101)", "range(1)").replace("size=200", "size=20, config={'noise': {'size': 5000}}"), {})
    assert capsys.readouterr().out.startswith("step 0: loss 8.9")


def test_a_loop_without_a_file_leaves_nothing_behind() -> None:
    es = small()
    run(es, 1)
    gone = weakref.ref(es)
    del es
    gc.collect()
    assert gone() is None
