#!/usr/bin/env python3
"""Train a policy for HalfCheetah-v5 with PPO, outside of ees_mpi, and save its state_dict for `ees-mpi measure`.

    jobs/examples/train_elsewhere.py [--steps 300000] [--seed 0] [--out ppo-seed0.pt]

Schulman et al. 2017 (arXiv:1707.06347): clipped surrogate objective, generalised advantages, Adam. The policy has
two tanh layers of 64 units and a linear output. The file also has the buffers `observation_mean`, `observation_std` and
`observation_clip`, with which the policy normalises its observations: `ees-mpi measure` reads them.
"""

import argparse
import time

import gymnasium
import mujoco
import numpy as np
import torch
from torch import nn

ENVIRONMENTS, HORIZON, EPOCHS, BATCH = 8, 256, 10, 256
DISCOUNT, LAMBDA, CLIP, LR = 0.99, 0.95, 0.2, 3e-4


class Policy(nn.Module):
    """The network, and the normaliser as buffers, so that both are in the state_dict."""

    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.hidden1, self.hidden2 = nn.Linear(observations, 64), nn.Linear(64, 64)
        self.action = nn.Linear(64, actions)
        nn.init.normal_(self.action.weight, std=0.01)
        self.register_buffer("observation_mean", torch.zeros(observations))
        self.register_buffer("observation_std", torch.ones(observations))
        self.register_buffer("observation_clip", torch.tensor(10.0))

    def normalised(self, seen: torch.Tensor) -> torch.Tensor:
        """Return observations as the network sees them."""
        limit = float(self.observation_clip)
        return ((seen - self.observation_mean) / self.observation_std).clamp(-limit, limit)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Return mean actions for normalised observations."""
        return self.action(torch.tanh(self.hidden2(torch.tanh(self.hidden1(seen)))))


class Learner:
    """PPO on several environments at once."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        mujoco.set_mju_user_warning(lambda message: None)  # otherwise MuJoCo writes MUJOCO_LOG.TXT into this folder
        self.env = gymnasium.make_vec("HalfCheetah-v5", num_envs=ENVIRONMENTS, vectorization_mode="sync")
        size, actions = self.env.single_observation_space.shape[0], self.env.single_action_space.shape[0]
        self.policy, self.log_std = Policy(size, actions), nn.Parameter(torch.full((actions,), -0.5))
        self.value = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        learned = [*self.policy.parameters(), self.log_std, *self.value.parameters()]
        self.optimizer = torch.optim.Adam(learned, lr=LR)
        self.seen = torch.tensor(self.env.reset(seed=seed)[0], dtype=torch.float32)
        self.count, self.live = 1e-4, torch.ones(ENVIRONMENTS)

    def observe(self, seen: torch.Tensor) -> None:
        """Add a batch of observations to the running mean and std."""
        buffers, n = self.policy, len(seen)
        mean, variance = seen.mean(0), seen.var(0, unbiased=False)
        shift, total = mean - buffers.observation_mean, self.count + n
        old = buffers.observation_std.square() * self.count
        joined = (old + variance * n + shift.square() * self.count * n / total) / total
        buffers.observation_mean += shift * n / total
        buffers.observation_std.copy_(joined.sqrt().clamp(min=1e-4))
        self.count = total

    def collect(self) -> dict[str, torch.Tensor]:
        """Act for `HORIZON` steps; return observations, actions, likelihoods, advantages and returns."""
        names = ("seen", "action", "likelihood", "value", "live", "reward")
        rows: dict[str, list[torch.Tensor]] = {name: [] for name in names}
        self.raw = []
        for _ in range(HORIZON):
            self.raw.append(self.seen)
            seen = self.policy.normalised(self.seen)
            noise = torch.distributions.Normal(self.policy(seen), self.log_std.exp())
            action = noise.sample()
            found, reward, _, ended, _ = self.env.step(action.clamp(-1, 1).numpy())
            values = (seen, action, noise.log_prob(action).sum(1), self.value(seen)[:, 0], self.live)
            self.live = torch.tensor(~ended, dtype=torch.float32)  # the step after the time limit only resets
            for name, value in zip(rows, (*values, torch.tensor(reward, dtype=torch.float32)), strict=True):
                rows[name].append(value)
            self.seen = torch.tensor(found, dtype=torch.float32)
        stacked = {name: torch.stack(values) for name, values in rows.items()}
        last = self.value(self.policy.normalised(self.seen))[:, 0]
        following = torch.cat([stacked["value"][1:], last[None]])
        error = stacked["live"] * (stacked["reward"] + DISCOUNT * following - stacked["value"])
        advantage = torch.zeros_like(error)
        running = torch.zeros(ENVIRONMENTS)
        for step in range(HORIZON - 1, -1, -1):
            running = stacked["live"][step] * (error[step] + DISCOUNT * LAMBDA * running)
            advantage[step] = running
        stacked |= {"advantage": advantage, "target": advantage + stacked["value"]}
        return {name: values.flatten(0, 1) for name, values in stacked.items()}

    def learn(self) -> float:
        """Collect rollouts and improve the policy; return the mean reward of a step."""
        with torch.no_grad():
            data = self.collect()
        for _ in range(EPOCHS):
            for part in torch.randperm(len(data["seen"])).split(BATCH):
                batch = {name: values[part] for name, values in data.items()}
                noise = torch.distributions.Normal(self.policy(batch["seen"]), self.log_std.exp())
                ratio = (noise.log_prob(batch["action"]).sum(1) - batch["likelihood"]).exp()
                gain = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
                surrogate = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
                error = (self.value(batch["seen"])[:, 0] - batch["target"]).square().mean()
                self.optimizer.zero_grad()
                (-surrogate + 0.5 * error).backward()
                nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], 0.5)
                self.optimizer.step()
        with torch.no_grad():
            self.observe(torch.cat(self.raw))
        return float(data["reward"].mean())


def main() -> None:
    """Train and save the policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="")
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    learner, start = Learner(wanted.seed), time.monotonic()
    rounds = max(1, wanted.steps // (ENVIRONMENTS * HORIZON))
    rewards: list[float] = []
    for number in range(1, rounds + 1):
        rewards.append(learner.learn())
        if number % 10 == 0 or number == rounds:
            taken = time.monotonic() - start
            print(f"{number * ENVIRONMENTS * HORIZON} steps, reward {np.mean(rewards[-10:]):.3f} a step, {taken:.0f} s")
    out = wanted.out or f"ppo-seed{wanted.seed}.pt"
    torch.save(learner.policy.state_dict(), out)
    print(out)


if __name__ == "__main__":
    main()
