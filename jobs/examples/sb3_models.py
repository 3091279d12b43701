#!/usr/bin/env python3
"""Train PPO and SAC of Stable-Baselines3 on Pendulum for a minute each, and record what they do; compare it with ours.

The two programs need different environments (pip install stable-baselines3; pip install ees_mpi):

    jobs/examples/sb3_models.py train FOLDER [--seconds 60] [--hidden 64,64]
    jobs/examples/sb3_models.py compare FOLDER

`train` writes ppo.zip, sac.zip and expected.npz: actions for 1,000 observations, and the returns from five starts. It
also trains PPO with VecNormalize (normalised.zip), and exports its statistics (stats.npz). `compare` prints the largest
differences. The models in tests/data/sb3 are from `train FOLDER --seconds 15 --hidden 4`, without their optimizers.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

STARTS = range(5)


def observations() -> np.ndarray:
    """Return 1,000 observations of the pendulum."""
    generator = np.random.default_rng(0)
    angle = generator.uniform(-np.pi, np.pi, 1000)
    return np.stack([np.cos(angle), np.sin(angle), generator.uniform(-8, 8, 1000)], axis=1).astype(np.float32)


def train(folder: Path, seconds: float, hidden: list[int]) -> None:
    """Train the models, and record their actions and returns."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    seen, found = observations(), {}

    def made(kind: Any, env: Any, **words: Any) -> Any:
        return kind("MlpPolicy", env, seed=0, device="cpu", policy_kwargs={"net_arch": hidden}, **words)

    models = {
        "ppo": made(PPO, "Pendulum-v1", learning_rate=1e-3, gamma=0.9, n_steps=1024),
        "sac": made(SAC, "Pendulum-v1", learning_starts=500, buffer_size=50_000),
    }
    for name, model in models.items():
        end = time.monotonic() + seconds
        model.learn(10**9, callback=lambda *_, end=end: time.monotonic() < end)
        model.save(folder / f"{name}.zip")
        found[f"{name}_actions"] = model.predict(seen, deterministic=True)[0]
        found[f"{name}_returns"] = [episode(gymnasium, model, start) for start in STARTS]
        print(f"{name}: {model.num_timesteps} steps, returns {np.round(found[f'{name}_returns'], 2)}")
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]), clip_obs=10.0)
    model = made(PPO, env, n_steps=256).learn(4096)
    model.save(folder / "normalised.zip")
    found["normalised_actions"] = model.predict(env.normalize_obs(seen), deterministic=True)[0]
    std = np.sqrt(env.obs_rms.var + env.epsilon)
    np.savez(
        folder / "stats.npz", observation_mean=env.obs_rms.mean, observation_std=std, observation_clip=env.clip_obs
    )
    np.savez(folder / "expected.npz", **found)


def episode(gymnasium: Any, model: Any, start: int) -> float:
    """Return the sum of rewards of a rollout without noise."""
    env = gymnasium.make("Pendulum-v1")
    seen, total, over = env.reset(seed=start)[0], 0.0, False
    while not over:
        seen, reward, terminated, truncated, _ = env.step(model.predict(seen, deterministic=True)[0])
        total, over = total + float(reward), terminated or truncated
    return total


def compare(folder: Path) -> None:
    """Print the largest differences between the recorded models and the rebuilt networks."""
    from ees_mpi import load_config
    from ees_mpi.foreign import policy_files

    pendulum = {"name": "gymnasium", "env": "Pendulum-v1", "steps": 200}
    sections = {
        "task": pendulum,
        "population": {"name": "normal", "size": 2, "std": 0.1},
        "objective": {"name": "maxent"},
    }
    with np.load(folder / "expected.npz") as file:
        expected = dict(file)
    for name in ("ppo", "sac", "normalised"):
        stats = folder / "stats.npz" if name == "normalised" else None
        policy = policy_files.read(folder / f"{name}.zip", normaliser=stats)
        task = policy_files.fitted(load_config(sections), policy).task
        network = task.network()  # type: ignore[attr-defined]
        network.load(policy.parameters)
        if stats:
            network.normalise(policy.mean, policy.std)
        actions = np.stack([network.act(row).clip(-2, 2) for row in observations()])
        line = f"{name}: actions differ by {np.abs(actions - expected[f'{name}_actions']).max():.2g}"
        if not stats:
            evaluators = [task.open(start) for start in STARTS]  # type: ignore[attr-defined]
            given = policy.parameters, np.zeros(3), np.ones(3), False
            returns = [evaluator.evaluate(0, *given).fitness for evaluator in evaluators]
            line += f", returns by {np.abs(returns - expected[f'{name}_returns']).max():.2g}"
        print(line)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("action", choices=["train", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hidden", default="64,64")
    options = parser.parse_args()
    if options.action == "compare":
        compare(options.folder)
    else:
        options.folder.mkdir(parents=True, exist_ok=True)
        train(options.folder, options.seconds, [int(size) for size in options.hidden.split(",")])


if __name__ == "__main__":
    main()
