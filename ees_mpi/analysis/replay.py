"""`ees-mpi replay`: individuals are rebuilt from the file, evaluated again, compared bit by bit, and filmed.

New mutations, of an exported policy or of a run, are sampled into a temporary file first.
"""

import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.analysis import video
from ees_mpi.analysis.offspring import extremes, positions
from ees_mpi.analysis.together import Scene, balls
from ees_mpi.arrays import Floats
from ees_mpi.commands.arguments import check_committed, counted
from ees_mpi.commands.info import task_name
from ees_mpi.commands.offspring import on_cpu, sample
from ees_mpi.commands.requests import ReplayRequest, SampleRequest
from ees_mpi.commands.verify import differences
from ees_mpi.errors import ConfigError, RunFileError, VerifyError, before_rollouts, located
from ees_mpi.files import check_writable
from ees_mpi.generation import Outcomes
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.run.evaluators import CpuEvaluator
from ees_mpi.run.file import Run, is_study, open_run, tell_missing
from ees_mpi.run.parts import logged_mean, logged_outcomes, stored_work, work_of_mean
from ees_mpi.run.progress import Counter
from ees_mpi.tasks.base import View

FPS = {".mp4": 30.0, ".gif": 12.5}  # approximate pictures per second
MUTATIONS = 8  # of a policy
MAX_TOGETHER = 64
SCENE = (640, 420)  # pixels


@dataclass(frozen=True)
class Choice:
    """One policy of a run: an individual of a generation, or a mean from which it was drawn; or a new mutation."""

    generation: int
    individual: int | None = None
    component: int = 0  # of a mean
    reason: str = ""
    new: bool = False  # True: sampled a moment ago, so that the generation means nothing to the user
    std: float | None = None  # of a study, whose rows are no generations

    @property
    def name(self) -> str:
        if self.individual is None:
            return f"mean {self.component}"
        return f"{'mutation' if self.new else 'individual'} {self.individual}"

    @property
    def row(self) -> str:
        return f"generation {self.generation}" if self.std is None else f"std {self.std:g}"

    @property
    def title(self) -> str:
        alone = self.new or (self.individual is None and self.std is not None)  # a mean has no std
        name = self.name if alone else f"{self.row}, {self.name}"
        return name + (f", {self.reason}" if self.reason else "")


def choose(run: Run, request: ReplayRequest) -> list[Choice]:
    """Return the requested individuals in the order of the options, each once; by default of the last generation.

    Means alone are by default those after the last generation.
    """
    check_committed(run)
    population, named = run.config.population, bool(request.individuals or request.extremes)
    last = run.generations - 1 + (request.mean and not named and not is_study(run))
    generation = last if request.generation is None else counted("--generation", request.generation, last + 1)
    if (request.together or request.mutations) and not (named or request.mean):
        if not population.has_individuals or population.size > MAX_TOGETHER:
            raise ConfigError(
                f"--together draws up to {MAX_TOGETHER} individuals, and {run.path} has {population.size} rows: add "
                "--mutations, --extremes or --individual"
            )
        return [Choice(generation, index) for index in range(population.size)]
    chosen = [Choice(generation, None, k) for k in range(population.components) if request.mean]
    if named or not request.mean:
        chosen += _individuals(run, request, generation)
    return list(dict.fromkeys(chosen))


def _individuals(run: Run, request: ReplayRequest, generation: int) -> list[Choice]:
    if not run.config.population.has_individuals:
        raise RunFileError(f"{run.path}: its rows are tasks, not individuals that can be replayed; use --mean")
    size = run.config.population.size
    chosen = [Choice(generation, counted("--individual", index, size)) for index in request.individuals]
    if request.extremes > size:
        raise ConfigError(f"--extremes {request.extremes}: the population has {size} individuals")
    if chosen and not request.extremes:
        return chosen
    ends = positions(run, generation)
    if not np.isfinite(ends).all(axis=1).any():
        raise RunFileError(f"{run.path}: generation {generation} has no valid individual")
    if request.extremes:
        return chosen + [Choice(generation, index) for index in extremes(ends, request.extremes)]
    return [Choice(generation, int(np.nanargmax(np.square(ends).sum(axis=1))), reason="farthest")]


@dataclass(frozen=True)
class Replayed:
    """The result of one replay."""

    choice: Choice
    logged: Outcomes | None  # None: the file has no outcome to compare with
    again: Outcomes  # of one
    explained: list[str]  # differences between the machines that can change bits

    @property
    def same(self) -> bool:
        """Return whether every bit is that of the file, if it has any."""
        return self.logged is None or self.logged.bits(0) == self.again.bits(0)

    @property
    def first(self) -> Floats:
        """The behaviour [B] from the first start."""
        return self.again.behavior[0] if self.again.by_start is None else self.again.by_start[0, 0]

    def line(self) -> str:
        """Return the result as a sentence."""
        again, by_start = self.again, self.again.by_start
        shown = _numbers(again.behavior[0]) if again.valid[0] else "not finite"
        steps = f"{again.length[0]} steps"
        if by_start is not None:  # the first is the one that a film shows
            shown += f", the mean of {by_start.shape[1]} starts (from the first: {_numbers(by_start[0, 0])})"
            steps += " in all"
        text = f"{self.choice.title}: behaviour {shown}; fitness {again.fitness[0]:.6g}; {steps}"
        there = "its first evaluation" if self.choice.new else "the file"
        if self.logged is None:
            return f"{text}: the file has no evaluation of it to compare with"
        if self.same:
            return text if self.choice.new else f"{text}: the same bits as in the file"
        if replace(self, logged=replace(self.logged, by_start=by_start)).same:
            return f"{text}: OTHER BITS from one of its starts than in {there}"
        apart = float(np.linalg.norm(again.behavior[0] - self.logged.behavior[0]))
        logged = ", ".join(f"{value:.17g}" for value in self.logged.behavior[0])
        return f"{text}: OTHER BITS than in {there}, which has behaviour {logged}; the distance is {apart:.4g}"


def _numbers(values: Floats) -> str:
    return ", ".join(f"{value:.6g}" for value in values)


def replay(path: Path, request: ReplayRequest, say: Callable[[str], None]) -> None:
    """Replay the requested individuals of a run, or new mutations."""
    for_videos = {"--together": request.together, "--size": request.size, "--seconds": request.seconds}
    for_videos["--speed"] = request.speed != 1.0
    if request.video:
        check_writable(request.video, "--video", tuple(FPS), [path])
        video.packages()
    elif without := [name for name, given in for_videos.items() if given]:
        raise ConfigError(f"{', '.join(without)}: for a video only; add --video FILE.gif or FILE.mp4")
    some = request.individuals or request.extremes or request.mean
    if not some and (request.mutations or 0) > MAX_TOGETHER:
        raise ConfigError(
            f"--mutations {request.mutations}: expected at most {MAX_TOGETHER}, or --extremes or --individual"
        )
    if path.suffix != ".npz" and not request.mutations:
        if request.settings:
            raise ConfigError(f"{path}: --set is for new mutations: add --mutations")
        return replay_run(path, request, say)
    with tempfile.TemporaryDirectory() as folder:
        again = replace(request, generation=None, mutations=request.mutations or MUTATIONS)
        return replay_run(sampled(path, request, Path(folder)), again, say, path)


def sampled(policy: Path, request: ReplayRequest, folder: Path) -> Path:
    """Evaluate mutations of a policy or a run on the CPU, which draws them; return their file."""
    most = request.mutations or MUTATIONS
    needed = max(2, request.extremes, *(index + 1 for index in request.individuals))
    if needed > most:
        given = f"--extremes {needed}" if needed == request.extremes else f"--individual {needed - 1}"
        raise ConfigError(f"{given}: only {most} mutations are drawn; add --mutations {needed}, or more")
    some = (request.individuals or request.mean) and not (request.extremes or request.mutations)
    of_file: dict[str, Any] = {"generation": request.generation, "trust": request.trust}
    settings = request.settings or on_cpu(policy, **of_file)
    count, out = needed if some else most, folder / f"{policy.stem}.h5"
    wanted = SampleRequest(policy, count, out, settings=settings, **of_file)
    return sample(Ranks(), wanted, lambda line: None)


def replay_run(path: Path, request: ReplayRequest, say: Callable[[str], None], named: Path | None = None) -> None:
    """Replay individuals of a run file; raise a VerifyError if bits differ and the machines do not explain it.

    named: the user's file, for messages
    """
    place = request.video and request.video.absolute()  # code of the user may change the present folder
    with tell_missing(open_run(path, request.trust)) as run:
        run.path = named or path
        run.check_last()
        choices = [
            replace(choice, new=bool(request.mutations), std=run.std(choice.generation) if is_study(run) else None)
            for choice in choose(run, request)
        ]
        size = request.size or ((640, 480) if len(choices) == 1 else (320, 240))
        with closing(_opened(run, request, size)) as actor:
            player = Player(run, actor)
            if request.video:
                in_scene, step = request.together or hasattr(actor, "limbs"), actor.step_seconds
                every = max(1, round(request.speed / (FPS[request.video.suffix.lower()] * step)))
                last = math.inf if request.seconds is None else request.seconds / step
                with Counter(len(choices) * run.config.task.steps, "step", "filming") as bar:
                    recorded = [player.record(choice, every, in_scene, last, bar.update) for choice in choices]
                replayed = [result for _, result in recorded]
            else:
                replayed = [player.evaluate(choice) for choice in choices]
        if request.video and place:
            sheet: video.Sheet | Scene
            if in_scene:
                sheet = scene(run, recorded, every * step, request.size or SCENE)
            else:
                sheet = video.Sheet([_film_of(run, frames, result) for frames, result in recorded], *size)
            fps = request.speed / (every * step)
            with Counter(sheet.count, "frame", "writing") as bar:
                video.write(place, sheet.frames(), f"{sheet.width}x{sheet.height}", fps, bar.update)
            say(f"{request.video}: {sheet.count} frames of {sheet.width} x {sheet.height}, {fps:.3g} a second")
    for result in replayed:
        say(result.line())
    different = [result for result in replayed if not result.same]
    if request.mutations and not different:
        say("each was evaluated twice, with the same bits")
    if different and all(result.explained for result in different):
        say(f"other bits are to be expected here: {'; '.join(different[0].explained)}")
    elif different and request.mutations:
        raise VerifyError(f"{len(different)} of {len(replayed)} gave other bits when they were evaluated a second time")
    elif different:
        raise VerifyError(
            f"{path}: {len(different)} of {len(replayed)} replayed gave other bits than the file has, though this "
            "machine computes like the one that wrote it: the file or the code has changed"
        )


def _opened(run: Run, request: ReplayRequest, size: tuple[int, int]) -> Any:
    """Open the task of a run: for a film, for a scene of limbs or places, or without a video."""
    task, seed = run.config.task, run.config.run.seed
    if request.video and not request.together:
        return film(run, View(*size))
    with before_rollouts():
        evaluator = task.open(seed)
    if not request.together or hasattr(evaluator, "limbs"):
        return evaluator
    has_place = task.axes in (1, 2)
    if has_place and hasattr(evaluator, "place"):
        return evaluator
    evaluator.close()
    drawable = task.film(seed, View(*size)) if has_place else None
    if drawable is None:
        raise RunFileError(
            f"the task {task_name(run.config)} of {run.path} has no limbs and no places that can be drawn together; "
            "expected a robot of Bullet or MuJoCo, or an environment whose behaviour is one or two numbers "
            "(task.axes); or leave out --together"
        )
    return drawable


def film(run: Run, view: View) -> Any:
    """Return the `Drawable` or `Limbed` of a run's task; raise a RunFileError if there is nothing to draw."""
    drawable = run.config.task.film(run.config.run.seed, view)
    if drawable is None:
        raise RunFileError(
            f"the task {task_name(run.config)} of {run.path} has nothing to draw; expected a walking robot or a "
            "Gymnasium environment"
        )
    return drawable


class Recorder:
    """Keeps each so many-th step of a rollout, up to the last one: pictures, or limbs or places for a scene."""

    def __init__(self, actor: Any, every: int, in_scene: bool, last: float, tick: Callable[[int], object]):
        self.frames: list[Any] = []
        self._actor, self._every, self._in_scene, self._last, self._tick = actor, every, in_scene, last, tick
        self._step, self._over = -1, False

    def on_step(self, step: int) -> None:
        again = step == 0 and self._step >= 0  # of several rollouts (`task.rollouts`), the first is filmed
        self._over = self._over or again or step > self._last
        if self._over:
            return
        self._step = step
        if step % self._every == 0:
            self._keep()
            self._tick(self._every if step else 0)

    def end(self) -> None:
        """Keep the last step of the rollout, too, if nothing has followed it."""
        if self._step % self._every and not self._over:
            self._keep()

    def _keep(self) -> None:
        if not self._in_scene:
            actor = self._actor
            self.frames.append(video.Shot.of(self._step * actor.step_seconds, actor.place(), actor.picture()))
            return
        now = self._actor.limbs() if hasattr(self._actor, "limbs") else np.array(self._actor.place())
        if now.size and np.isfinite(now).all():
            self.frames.append(now)
        elif self.frames:  # unstable physics: the robot stays
            self.frames.append(self.frames[-1])


Recorded = tuple[list[Any], Replayed]  # pictures, limbs or places; and the result


class Player:
    """Evaluates individuals and means of a run again, with rollouts that are open: in front of a camera for example."""

    def __init__(self, run: Run, actor: Any):
        config = run.config
        noise = Noise(config.noise_seed, config.noise.size)
        run.check_noise(noise)
        self._run, self.actor, self._evaluator = run, actor, CpuEvaluator(config, noise, Ranks(), actor)

    def evaluate(self, choice: Choice) -> Replayed:
        """Evaluate one individual, or a mean, again."""
        run, g, index = self._run, choice.generation, choice.individual
        logged: Outcomes | None = None
        with located(f"generation {g}"):
            if index is not None:
                again = self._evaluator.evaluate(stored_work(run, g), np.array([index])).outcomes
                logged = logged_outcomes(run, g).at(np.array([index]))
            else:
                work = work_of_mean(run, g, choice.component)
                again = self._evaluator.evaluate(work, np.array([work.size])).means
                if not choice.component:
                    logged = logged_mean(run, g, again)
        result = Replayed(choice, logged, again, [])
        return result if result.same else replace(result, explained=differences(run, g))

    def record(
        self,
        choice: Choice,
        every: int,
        in_scene: bool,
        last: float = math.inf,
        tick: Callable[[int], object] = lambda steps: None,
    ) -> Recorded:
        """Replay one policy, and keep each so many-th step of its first rollout."""
        recorder = Recorder(self.actor, every, in_scene, last, tick)
        self.actor.on_step = recorder.on_step
        result = self.evaluate(choice)
        recorder.end()
        return recorder.frames, result


def scene(run: Run, recorded: Sequence[Recorded], seconds: float, size: tuple[int, int]) -> Scene:
    """Return all robots, or the places of other tasks, in one scene; `seconds`: from frame to frame."""
    walks, choices = [np.array(frames) for frames, _ in recorded], [result.choice for _, result in recorded]
    if any(len(walk) == 0 for walk in walks):
        raise RunFileError(f"{run.path}: a rollout has no finite place that can be drawn")
    title, numbers, unit = choices[0].title, [""], 1.0
    if len(choices) > 1:
        kind = "mutations of one network" if choices[0].new else f"of {choices[0].row}"
        title = f"{len(choices)} {kind}"
        numbers = [choice.name if choice.individual is None else str(choice.individual) for choice in choices]
    title += which_start(run)
    if walks[0].ndim < 3:
        title += ": places, from the start on"
        walks, unit = balls(walks)
    return Scene(walks, run.config.task.axes, size, seconds, title, unit, numbers=numbers)


def which_start(run: Run) -> str:
    """Return which one of several starts is filmed; empty if there is one."""
    count = run.config.task.rollouts
    return f", start 1 of {count}" if count > 1 else ""


def _film_of(run: Run, shots: Sequence[video.Shot], result: Replayed) -> video.Film:
    """Return the film of one policy; of a task that is no robot, the caption has the behaviour and the std."""
    choice, valid = result.choice, result.again.valid[0]
    g, title = choice.generation, choice.title + which_start(run)
    if g < run.generations and run.device(g) == "cuda":
        title += " (on the CPU)"  # another rollout than the one that was logged
    if run.config.task.begins_at_origin:
        return video.Film(title, shots)
    behavior = result.first
    shown = ", ".join(f"{value:.4g}" for value in behavior[:3]) + (", ..." if len(behavior) > 3 else "")
    std = ""
    if choice.individual is not None:
        std = f"std {run.std(g):.3g}"
    return video.Film(title, shots, (f"behaviour {shown}" if valid else "not finite", std))
