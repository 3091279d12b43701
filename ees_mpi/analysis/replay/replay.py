"""Replaying individuals of a run: rebuilt from the file, let loose again, compared bit for bit, filmed."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.analysis.offspring import places, walks
from ees_mpi.analysis.replay import video
from ees_mpi.analysis.replay.choice import Choice, ReplayRequest, choose
from ees_mpi.commands.info import task_name
from ees_mpi.commands.verify import Repeated, as_logged, differences, repeat
from ees_mpi.contracts import Drawable, Evaluator, View
from ees_mpi.errors import ConfigError, RunFileError, VerifyError
from ees_mpi.outcomes import Floats, pack
from ees_mpi.state import State
from ees_mpi.store.reader import Run, open_run

FPS = 30  # about how many pictures make a second of video
SEEN = 50  # units that a still camera can take in
LOGGED = 3  # columns of a `Repeated` row in front of the behaviour: valid, length, fitness


@dataclass(frozen=True)
class Filming:
    """How a video is to be: where it goes, how large a panel is, how fast time passes, what the camera does."""

    out: Path
    size: tuple[int, int] | None = None  # of one panel; None: by their number
    speed: float = 1.0
    still: bool = False  # one place for the camera in all panels, from which all is seen


@dataclass(frozen=True)
class Replayed:
    """What came of one individual."""

    choice: Choice
    again: Repeated
    explained: list[str]  # the differences of machines that explain other bits

    @property
    def compared(self) -> bool:
        """Whether the file has something to compare with."""
        return not np.isnan(self.again.logged[1])

    def line(self) -> str:
        """Say what came of it."""
        valid, length, fitness, *behavior = self.again.found
        what = ", ".join(f"{value:.6g}" for value in behavior) if valid else "not finite"
        text = f"{self.choice.title}: behavior {what}; fitness {fitness:.6g}; "
        text += f"{int(length)} steps: "
        if not self.compared:
            return text + "the file has no evaluation of it to compare with"
        if self.again.same:
            return text + "the same bits as in the file"
        logged = ", ".join(f"{value:.17g}" for value in self.again.logged[LOGGED:])
        return text + f"OTHER BITS than in the file, which has behavior {logged}"


def replay(
    path: Path, request: ReplayRequest, filming: Filming | None, say: Callable[[str], None], progress: bool = False
) -> list[Replayed]:
    """Replay what is wished for; raises where bits differ and no difference of machines explains it."""
    if filming:
        video.check_target(filming.out)
    with open_run(path) as run:
        run.check_order()
        choices = choose(run, request)
        if filming:
            replayed = _filmed(run, choices, filming, say, progress)
        else:
            evaluator = run.config.task.open(run.config.run.seed)
            try:
                replayed = [evaluate(run, evaluator, choice) for choice in choices]
            finally:
                evaluator.close()
        for each in replayed:
            say(each.line())
    _judge(path, replayed, say)
    return replayed


def _judge(path: Path, replayed: Sequence[Replayed], say: Callable[[str], None]) -> None:
    """Name the difference of machines that explains other bits; where there is none, that is an error."""
    other = [each for each in replayed if each.compared and not each.again.same]
    if not other:
        return
    if all(each.explained for each in other):
        say(f"other bits are to be expected here: {'; '.join(other[0].explained)}")
        return
    raise VerifyError(
        f"{path}: {len(other)} of {len(replayed)} replayed gave other bits than the file has, though this machine "
        "computes like the one that wrote it: the file or the code has changed"
    )


def evaluate(run: Run, evaluator: Evaluator, choice: Choice) -> Replayed:
    """Let one individual, or a mean, act again."""
    if choice.individual is not None:
        again = repeat(run, evaluator, choice.generation, choice.individual)
    else:
        again = _mean_again(run, evaluator, choice)
    explained = [] if again.same else differences(run, choice.generation)
    return Replayed(choice, again, explained)


def _mean_again(run: Run, evaluator: Evaluator, choice: Choice) -> Repeated:
    """Evaluate a mean; the file has the first one's outcome where it was evaluated while training."""
    g, nothing = choice.generation, np.full(LOGGED + run.config.task.behavior_dim, np.nan)
    if g == run.generations:
        state = State.from_arrays(run.state_arrays())
        mean, normal = state.mean[choice.component], state.observation_mean_std()
    else:
        mean, normal = run["mean"][g][choice.component], run.observation_statistics(g)
    outcome = evaluator.evaluate(0, np.ascontiguousarray(mean), *normal, False)
    found = as_logged(pack([outcome], run.config.task.behavior_dim))
    if g == run.generations or choice.component or not np.isfinite(run["mean_fitness"][g]):
        return Repeated(nothing, found)
    logged: Floats = np.array([1.0, found[1], run["mean_fitness"][g], *run["mean_behavior"][g]])  # no length is logged
    return Repeated(logged, found)


def _filmed(
    run: Run, choices: Sequence[Choice], filming: Filming, say: Callable[[str], None], progress: bool
) -> list[Replayed]:
    """Replay before a camera and write the video."""
    size = filming.size or ((640, 480) if len(choices) == 1 else (320, 240))
    point, distance = _overview(run, choices) if filming.still else (None, View.distance)
    actor = film(run, View(*size, point, distance))
    every = max(1, round(filming.speed / (FPS * actor.step_seconds)))
    replayed, films = [], []
    total = len(choices) * run.config.task.steps
    try:
        with _bar(total, "step", "filming", progress) as bar:
            for choice in choices:
                films.append(video.Film(choice.title))
                replayed.append(_film_one(run, actor, choice, films[-1], every, bar))
    finally:
        actor.close()
    with _bar(max(len(each.shots) for each in films), "frame", "writing", progress) as bar:
        fps = filming.speed / (every * actor.step_seconds)
        frames, width, height = video.write(filming.out, films, size, fps, bar.update if bar else lambda: None)
    say(f"{filming.out}: {frames} frames of {width} x {height}, {fps:.3g} a second")
    return replayed


def film(run: Run, view: View) -> Drawable:
    """Open the task of a run for filming; raise a RunFileError if there is nothing to draw."""
    drawable = run.config.task.film(run.config.run.seed, view)
    if drawable is None:
        raise RunFileError(
            f"the task {task_name(run.config)} of {run.path} has nothing to draw; expected a walking robot or a "
            "Gymnasium environment"
        )
    return drawable


def _film_one(run: Run, actor: Drawable, choice: Choice, reel: video.Film, every: int, bar: Any) -> Replayed:
    steps = 0

    def shoot() -> None:
        reel.shots.append(video.Shot.of(steps * actor.step_seconds, actor.place(), actor.picture()))

    def on_step(step: int) -> None:
        nonlocal steps
        steps = step
        if step % every == 0:
            shoot()
            if bar:
                bar.update(every if step else 0)

    actor.on_step = on_step
    done = evaluate(run, actor, choice)
    if steps % every:
        shoot()  # how it ended
    return done


def _overview(run: Run, choices: Sequence[Choice]) -> tuple[tuple[float, float], float]:
    """Find a point and a distance from which the start and all ends are seen."""
    ends = [(0.0, 0.0)]
    for choice in choices:
        if choice.individual is not None and walks(run):
            x, *y = places(run, choice.generation)[choice.individual].tolist()
            ends.append((x, y[0] if y else 0.0))
    seen = np.array([end for end in ends if all(map(math.isfinite, end))])
    low, high = seen.min(axis=0), seen.max(axis=0)
    middle = (low + high) / 2
    apart = float(np.linalg.norm(high - low))
    if apart > SEEN:
        raise ConfigError(
            f"--camera still: start and ends lie {apart:.0f} units apart; from where all that is seen (up to {SEEN}) "
            "robots are specks. Leave it out: each is then followed, and a map shows where it is"
        )
    return (float(middle[0]), float(middle[1])), View.distance + 1.1 * apart


def panel_size(text: str | None) -> tuple[int, int] | None:
    """Read WIDTHxHEIGHT: even numbers, as video wants them."""
    if text is None:
        return None
    words = text.lower().split("x")
    if len(words) != 2 or not all(word.isdigit() and int(word) % 2 == 0 and 64 <= int(word) <= 4096 for word in words):
        raise ConfigError(f"--size {text}: expected WIDTHxHEIGHT in even numbers of pixels from 64 on, e.g. 320x240")
    return int(words[0]), int(words[1])


def _bar(total: int, unit: str, what: str, shown: bool) -> Any:
    if not shown:
        return nullcontext()
    import sys

    from tqdm import tqdm

    return tqdm(total=total, unit=unit, desc=what, file=sys.stdout, dynamic_ncols=True, leave=False)
