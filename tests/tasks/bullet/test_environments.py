from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from support.ready_made import Episode, ready_made

import ees_mpi.envs  # noqa: F401  registers the environments
from ees_mpi.tasks.bullet.robots import BulletAnt, BulletCheetah

KINDS = {"ees_mpi/HalfCheetahBullet-v0": BulletCheetah, "ees_mpi/AntBullet-v0": BulletAnt}


@pytest.fixture(params=KINDS)
def env(request: pytest.FixtureRequest) -> Iterator[gymnasium.Env]:
    made = gymnasium.make(request.param)
    yield made
    made.close()


def test_gymnasium_finds_nothing_to_warn_of_and_cuts_episodes_after_1000_steps(env: gymnasium.Env) -> None:
    check_env(env.unwrapped)
    assert env.spec.max_episode_steps == 1000


@pytest.mark.slow
def test_rewards_have_the_bits_of_the_ready_made_environment(env: gymnasium.Env) -> None:
    kind = KINDS[env.spec.id]
    with ready_made(kind) as theirs:
        for episode in (Episode(0, "random"), Episode(1, "held", 3), Episode(2, "policy")):
            ours, other = env.unwrapped, theirs
            act = episode.actor(ours.robot)
            observation, _ = ours.reset(seed=episode.seed)
            other.reset(seed=episode.seed)
            for _ in range(150):
                action = act(observation)
                observation, reward, end, _, _ = ours.step(action)
                _, other_reward, other_end, _, _ = other.step(action)
                assert np.float64(reward).tobytes() == np.float64(other_reward).tobytes()
                assert end == other_end


def test_without_a_seed_episodes_go_on_as_in_the_ready_made_environment(env: gymnasium.Env) -> None:
    with ready_made(KINDS[env.spec.id]) as theirs:
        for seed in (7, None, None):
            ours, _ = env.reset(seed=seed)
            other, _ = theirs.reset(seed=seed)
            assert ours.tobytes() == other.tobytes()
