"""The examples of `docs/plugins.md`, with an environment: Python files, and a config for each family."""

import re
import tomllib
from pathlib import Path

import tomli_w

from support.program import CHECKOUT

PAGE = (CHECKOUT / "ees_mpi" / "docs" / "plugins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|toml)\n(.*?)```", PAGE, re.DOTALL)
ENVIRONMENT = """# cart.py
import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Cart(gymnasium.Env):
    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.speed = 0.0, 0.1
        return np.array([self.x, self.speed], np.float32), {}

    def step(self, action):
        self.speed += 0.1 * float(action[0])
        self.x += self.speed
        return np.array([self.x, self.speed], np.float32), -abs(self.x), False, False, {}


gymnasium.register("Cart-v0", Cart)
"""
BEHAVIORS = """# behaviors.py
def middle_and_end(rollout):
    seen = rollout.observations
    return [seen[len(seen) // 2][0], seen[-1][0]]
"""
MODULES = {"cart.py": ENVIRONMENT, "behaviors.py": BEHAVIORS}
MODULES |= {text.split("\n")[0].removeprefix("# "): text for kind, text in BLOCKS if kind == "python"}
BASE, *SECTIONS = [tomllib.loads(text) for kind, text in BLOCKS if kind == "toml"]
HEADINGS = [part.split("\n")[0] for part in PAGE.split("\n## ")[1:] if "```toml" in part]
EXAMPLES = dict(zip(HEADINGS, SECTIONS, strict=True))  # "A task": its section

CART = {"name": "gymnasium", "env": "cart:Cart-v0", "hidden": [8], "steps": 20}
EXAMPLES["A Gymnasium environment"] = {"task": CART}
EXAMPLES["A behaviour"] = {"task": {**CART, "behavior": "behaviors:middle_and_end"}}


def write(folder: Path, heading: str, **run: object) -> Path:
    """Write all modules, and the config of one example; `run`: keys of section `run`."""
    for name, text in MODULES.items():
        (folder / name).write_text(text)
    config = {**BASE, **EXAMPLES[heading]}
    config["run"] = {**BASE["run"], "fsync": False, **run}
    path = folder / "own.toml"
    path.write_text(tomli_w.dumps(config))
    return path
