"""The algorithm in plain numpy, without ees_mpi: what the file of a run must hold, computed a second time.

It is `jobs/examples/one_file.py` with all objectives, populations, optimizers and rules of starts. A config is a dict
of tables, as a TOML file has them. What it does not name has the defaults that the pages promise.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Task = Callable[[Any, int], tuple[Any, float]]  # (parameters, seed) -> behaviour, fitness
GROUP = 64  # rows of noise that are added up in single precision


def run(config: Arrays, task: Task, mean: Any, observe: Callable[[Any], Any] | None = None) -> Iterator[Arrays]:
    """Yield the arrays of each generation, with the individuals `z`; and at last the state after them.

    mean: the first mean(s) [K, D]; observe: returns the observations [T, O] of an individual
    """
    seed, population = config["run"]["seed"], config["population"]
    noise = stream(seed, "noise").standard_normal(config["noise"]["size"], dtype=np.float32)
    learned: Arrays = {"mean": np.array(mean, np.float32)}
    if population["name"] == "diagonal":
        learned["std"] = np.full(learned["mean"].shape, population["std"], np.float32)
    moments: Arrays = {}
    memory: Arrays = {}
    seen = np.zeros(1 + (0 if observe is None else 2 * observe(learned["mean"][0]).shape[1]))
    for generation in range(config["run"]["generations"]):
        offset, sign, parent = draw(config, generation, learned["mean"].shape[1])
        eps = np.stack([noise[start : start + learned["mean"].shape[1]] for start in offset])
        now = std_at(population, generation)
        std = learned["std"][0] if "std" in learned else np.float32(now)
        z = learned["mean"][parent] + sign[:, None].astype(np.float32) * (std * eps)
        starts = seeds(config, generation)
        found = outcomes(config, task, [*z, learned["mean"][0]], starts)
        individuals = {name: array[:-1] for name, array in found.items()}
        valid = individuals["valid"]
        every = config["run"]["evaluate_mean_every"]
        evaluated = every > 0 and generation % every == 0
        weights, remembered = weigh(config["objective"], individuals, config["task"].get("starts"), memory)
        slope = gradient({**population, "std": now}, weights, learned, offset, sign, parent, noise)
        yield {
            "z": z,
            **learned,
            **individuals,
            "offset": offset,
            "sign": sign,
            "parent": parent,
            **({"mutation_std": now} if population.get("std_decay", 1) < 1 else {}),
            "behavior_of_mean": found["behavior"][-1] if evaluated else np.full(len(found["behavior"][-1]), np.nan),
            "fitness_of_mean": found["fitness"][-1] if evaluated else np.nan,
            **normaliser(seen),
            **metrics(config, individuals),
            "gradient_norm": np.sqrt(sum(np.square(array).sum() for array in slope.values())),
        }
        memory = remembered
        if weights.any():
            learned, moments = step(config.get("optimizer", {}), learned, slope, moments)
        if observe is not None:
            chosen = stream(seed, "observe", generation).random(len(z)) < config["task"]["observation_share"]
            for parameters in z[chosen & valid]:
                rows = observe(parameters)
                seen = seen + np.array([len(rows), *rows.sum(axis=0), *np.square(rows).sum(axis=0)])
        if "std" in learned:
            learned["std"] = np.clip(learned["std"], *limits(population))
    groups = {f"moments/{name}": array for name, array in moments.items()}
    groups |= {f"memory/{name}": array for name, array in memory.items()}
    yield {**learned, **groups, "observations": seen}


def std_at(population: Arrays, generation: int) -> float:
    """Return the std of a generation, which may decay down to a floor."""
    std = population["std"]
    for _ in range(generation):
        std = max(std * population["std_decay"], population.get("std_min", 0.001)) if "std_decay" in population else std
    return std


def first_means(config: Arrays) -> Any:
    """Return the first mean(s) [K, D] of a function: `start` everywhere; several are drawn around it."""
    mean = np.full((1, config["task"]["parameters"]), config["task"]["start"], np.float32)
    if config["population"]["name"] != "mixture":
        return mean
    shape = (config["population"]["components"], mean.size)
    return mean + np.float32(config["population"]["std"]) * stream(config["run"]["seed"], "split").standard_normal(
        shape, np.float32
    )


def stream(seed: int, purpose: str, counter: int = 0) -> np.random.Generator:
    """Return a random generator that depends on its name only."""
    key = hashlib.blake2b(f"{seed}/{purpose}/{counter}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(key, "<u8")))


def draw(config: Arrays, generation: int, parameters: int) -> tuple[Any, Any, Any]:
    """Return where the noise of each individual begins, its sign, and its mean [N]."""
    population, generator = config["population"], stream(config["run"]["seed"], "draw", generation)
    twins = 2 if population.get("antithetic", True) else 1
    pairs = population["size"] // twins
    offset = generator.integers(0, config["noise"]["size"] - parameters + 1, pairs)
    parent = np.zeros(pairs, int)
    if population["name"] == "mixture":
        parent = generator.integers(0, population["components"], pairs)
    sign = np.array([1, -1] * pairs if twins == 2 else [1] * pairs)
    return np.repeat(offset, twins), sign, np.repeat(parent, twins)


def seeds(config: Arrays, generation: int) -> Any:
    """Return the seeds of all rollouts [N + 1, K]; the last row is that of the unperturbed mean."""
    seed, size, task = config["run"]["seed"], config["population"]["size"], config["task"]
    count, starts = task.get("rollouts", 1), task.get("starts", "fixed")
    everyone = np.arange(size + 1)
    if starts == "own":
        rows = stream(seed, "own starts", generation).integers(2**31, size=(size + 1, count))
        return rows[everyone // 2 if config["population"].get("antithetic", True) else everyone]
    if starts == "common":
        same = stream(seed, "common starts", generation).integers(2**31, size=count)
    else:
        same = np.array([seed, *stream(seed, "fixed starts").integers(2**31, size=count)[1:]])
    return np.tile(same, (size + 1, 1))


def outcomes(config: Arrays, task: Task, individuals: Any, starts: Any) -> Arrays:
    """Return the outcome of each individual, the mean of its rollouts."""
    rollouts = [[task(z, int(seed)) for seed in row] for z, row in zip(individuals, starts, strict=True)]
    by_start = np.array([[behavior for behavior, _ in row] for row in rollouts], np.float64)  # [N, K, B]
    fitness = np.array([[fitness for _, fitness in row] for row in rollouts], np.float64)
    finite = np.isfinite(by_start).all(axis=(1, 2)) & np.isfinite(fitness).all(axis=1)
    return {
        "behavior": by_start.mean(axis=1),
        **({"behavior_by_start": by_start} if by_start.shape[1] > 1 else {}),
        "fitness": fitness.mean(axis=1),
        "length": np.full(len(by_start), by_start.shape[1]),
        "valid": finite,
    }


def normalised(behavior: Any, how: str) -> Any:
    """Return behaviours [N, B] with mean 0: with standard deviation 1, or their ranks from -0.5 to 0.5."""
    if how == "ranks":
        return np.stack([ranks(column) for column in behavior.T], axis=1)
    centred = behavior - behavior.mean(axis=0)
    return centred / centred.std(axis=0)


def ranks(values: Any) -> Any:
    """Return ranks from -0.5 to 0.5; equal values get the mean of their ranks."""
    below = (values[:, None] > values).sum(axis=1)
    equal = (values[:, None] == values).sum(axis=1)
    return (below + (equal - 1) / 2) / (len(values) - 1) - 0.5


def width_of(b: Any, bandwidth: Any, how: str = "whiten") -> float:
    """Return the width of the kernel, by Scott's rule unless it is a number; at most 1 in standard deviations."""
    if bandwidth != "scott":
        return bandwidth
    low, high = np.percentile(b, (25, 75), axis=0)
    std = b.std(axis=0) if how == "ranks" else np.ones(b.shape[1])
    return len(b) ** (-1 / (b.shape[1] + 4)) * np.minimum(std, (high - low) / 1.349).min()


def kernel(b: Any, bandwidth: float) -> Any:
    """Return the Gaussian kernel [N, N] of the distances between the rows of b."""
    x = (b * (1 / (bandwidth * np.sqrt(2)))).astype(np.float32)
    return np.exp(-np.square(x[:, None] - x).sum(axis=2))


def means_of_rows(matrix: Any, factors: Any) -> Any:
    """Return the mean of each row of a matrix in single precision, times factors."""
    return np.vecdot(matrix, factors.astype(np.float32)).astype(np.float64) / len(matrix)


def weigh(objective: Arrays, found: Arrays, starts: str | None, memory: Arrays) -> tuple[Any, Arrays]:
    """Return the weights [N], with mean 0 and 0 for invalid individuals, and what the objective remembers."""
    valid = found["valid"]
    behavior, fitness, count = found["behavior"][valid], found["fitness"][valid], valid.sum()
    name, how = objective["name"], objective.get("normalization", "whiten")
    remembered: Arrays = {}
    if name == "blend":
        return blend(objective["parts"], found, starts, memory)
    if name == "fitness":
        terms = ranks(fitness)
    elif name == "maxvar":
        terms = np.square(normalised(behavior, how)).sum(axis=1)
    elif name == "maxent":
        b = normalised(behavior, how)
        k = kernel(b, width_of(b, objective.get("bandwidth", "scott"), how))
        p = means_of_rows(k, np.ones(count))
        terms = -(np.log(p) + means_of_rows(k, 1 / p))
    elif name == "repeatable":
        by_start = found["behavior_by_start"][valid]
        b = by_start - by_start.mean(axis=0 if starts in ("common", "fixed") else (0, 1))
        b = b / np.sqrt(np.square(b).mean(axis=(0, 1)))
        products = np.square(b.sum(axis=1)) - np.square(b).sum(axis=1)
        terms = products.sum(axis=1) / (b.shape[1] * (b.shape[1] - 1))
    elif name != "novelty":
        raise ValueError(f"the oracle does not know the objective {name}")
    else:
        archive = memory.get("archive", behavior[:0])
        nearest = min(objective.get("neighbors", 10), len(archive))
        distance = np.sqrt(np.square(behavior[:, None] - archive).sum(axis=2))
        terms = ranks(np.sort(distance, axis=1)[:, :nearest].mean(axis=1)) if nearest else np.zeros(count)
        grown = np.concatenate([archive, behavior[: objective.get("added", 10)]])
        remembered = {"archive": grown[-objective.get("archive_size", 5000) :]}
    weights = np.zeros(len(valid))
    weights[valid] = terms / count - (terms / count).mean()
    return weights, remembered


def blend(parts: Any, found: Arrays, starts: str | None, memory: Arrays) -> tuple[Any, Arrays]:
    """Return the sum of the weights of parts, each brought to the standard deviation of the first that is not 0."""
    total, first, grown = np.zeros(len(found["valid"])), 0.0, {}
    for number, part in enumerate(parts):
        own = {name.removeprefix(f"{number}/"): memory[name] for name in memory if name.startswith(f"{number}/")}
        weights, remembered = weigh(part, found, starts, own)
        spread = weights[found["valid"]].std()
        first = first or spread
        if spread:
            total += part["share"] * (first / spread) * weights
        grown |= {f"{number}/{name}": array for name, array in remembered.items()}
    return total, grown


def gradient(
    population: Arrays, weights: Any, learned: Arrays, offset: Any, sign: Any, parent: Any, noise: Any
) -> Arrays:
    """Return sum_i w_i grad log p(z_i) for each learned array."""
    mean, std = learned["mean"].astype(np.float64), population["std"]
    size = mean.shape[1]
    if population["name"] == "mixture":
        eps = np.stack([noise[start : start + size] for start in offset]).astype(np.float64)
        z = mean[parent] + sign[:, None] * std * eps
        away = z[:, None] - mean  # [N, K, D]
        # log p(z_i | k) - log p(z_i | parent), which is small: nothing large is subtracted
        between = mean[parent][:, None] - mean
        a = -(np.square(between).sum(axis=2) + 2 * std * sign[:, None] * (eps[:, None] * between).sum(axis=2)) / (
            2 * std**2
        )
        odds = np.exp(a - a.max(axis=1, keepdims=True))
        rho = odds / odds.sum(axis=1, keepdims=True)
        return {"mean": np.einsum("n,nk,nkd->kd", weights, rho, away) / std**2}
    pairs = 2 if population.get("antithetic", True) else 1

    def summed(terms: Any, squared: bool = False) -> Any:
        factors = terms.reshape(-1, pairs).sum(axis=1).astype(np.float32)
        total = np.zeros(size)
        for first in range(0, len(factors), GROUP):
            group = np.zeros(size, np.float32)
            for factor, start in zip(
                factors[first : first + GROUP], offset[::pairs][first : first + GROUP], strict=True
            ):
                row = noise[start : start + size]
                group += factor * (np.square(row) - np.float32(1) if squared else row)
            total += group
        return total

    if "std" not in learned:
        return {"mean": summed(weights * sign / std)[None]}
    std = learned["std"][0]
    low, high = limits(population)
    slope = summed(weights, squared=True)
    slope[(std <= low) & (slope < 0) | (std >= high) & (slope > 0)] = 0
    return {"mean": (summed(weights * sign) / std.astype(np.float64))[None], "std": slope[None]}


RANGE = 1000.0  # of a learned std


def limits(population: Arrays) -> tuple[Any, Any]:
    """Return the smallest and the largest std that is learned."""
    return np.float32(population["std"] / RANGE), np.float32(population["std"] * RANGE)


def step(optimizer: Arrays, learned: Arrays, slope: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
    """Return the learned arrays after a step uphill, and the moments of Adam; a std is moved in its logarithm."""
    beta1, beta2, epsilon = 0.9, 0.999, 1e-8
    adam, steps = optimizer.get("name", "adam") == "adam", moments.get("steps", 0) + 1
    following, grown = {}, {"steps": steps} if adam else {}
    for name, theta in learned.items():
        wide, rate = theta.astype(np.float64), optimizer.get("lr", 0.01)
        uphill = slope[name]
        if name != "std":
            uphill = uphill - optimizer.get("l2", 0.0) * wide
        move = rate * uphill
        if adam:
            prefix = "" if name == "mean" else f"{name}/"
            first = beta1 * moments.get(f"{prefix}first", 0) + (1 - beta1) * uphill
            second = beta2 * moments.get(f"{prefix}second", 0) + (1 - beta2) * uphill * uphill
            scale = np.sqrt(second) / np.sqrt(1 - beta2**steps) + epsilon
            if optimizer.get("correct_first", True):
                rate = rate / (1 - beta1**steps)
            move = rate * (first / scale)
            grown |= {f"{prefix}first": first, f"{prefix}second": second}
        following[name] = (wide * np.exp(move) if name == "std" else wide + move).astype(np.float32)
    return following, grown


def normaliser(seen: Any) -> Arrays:
    """Return the statistics of the observations from their count, sums and sums of squares [1 + 2 O]."""
    count, size = seen[0], len(seen) // 2
    if not size:
        return {"observation_count": count}
    mean, std = np.zeros(size), np.ones(size)
    if count:
        mean = seen[1 : 1 + size] / count
        std = np.sqrt(np.maximum(seen[1 + size :] / count - np.square(mean), 1e-2))
    return {"observation_sums": seen, "observation_count": count, "observation_mean": mean, "observation_std": std}


def metrics(config: Arrays, found: Arrays) -> Arrays:
    """Return the numbers that are logged of the outcomes of a generation; a user's loop has no places."""
    objective, has_places = config["objective"], config["task"].get("name") == "function"
    valid = found["valid"]
    behavior, fitness = found["behavior"][valid], found["fitness"][valid]
    distance = np.sqrt(np.square(behavior).sum(axis=1))
    parts = objective.get("parts", [objective])
    bandwidths = [part.get("bandwidth", "scott") for part in parts if part["name"] == "maxent"]
    b, std = normalised(behavior, "whiten"), behavior.std(axis=0)
    width = width_of(b, [*bandwidths, "scott"][0])
    p = means_of_rows(kernel(b, width), np.ones(len(b)))
    density = p / (np.sqrt(2 * np.pi) * width) ** len(std)  # of the whitened behaviours
    return {
        "variance": behavior.var(axis=0).sum(),
        "entropy": np.log(std).sum() - np.log(density).mean(),
        **({"distance_mean": distance.mean(), "distance_max": distance.max()} if has_places else {}),
        "fitness_mean": fitness.mean(),
        "fitness_max": fitness.max(),
        "invalid_share": 1 - valid.mean(),
    }
