"""Environments of Gymnasium: makes them, and says what to do if one cannot be made."""

import importlib.util
import math
import warnings
from typing import Any

import numpy as np

from ees_mpi.arrays import Singles
from ees_mpi.errors import ConfigError, MissingExtra, PluginError, optional
from ees_mpi.registry import flat, leaves, require
from ees_mpi.registry.plugins import failed, import_module
from ees_mpi.tasks.mujoco.robot_model import library as silent_mujoco
from ees_mpi.tasks.rollouts import View
from ees_mpi.tasks.silence import silence


def library() -> Any:
    """Import Gymnasium, register our environments and silence MuJoCo; raise MissingExtra if Gymnasium is missing."""
    missing = "task gymnasium needs Gymnasium: pip install 'ees_mpi[bullet]' or '[mujoco]'"
    gymnasium = optional("gymnasium", missing)
    import ees_mpi.tasks.bullet.registration  # noqa: F401  (registers our environments)

    if importlib.util.find_spec("mujoco"):
        silent_mujoco()
    return gymnasium


def is_known(env: str) -> bool:
    """Return whether an environment is Gymnasium's own, or ours."""
    entry = getattr(library().registry.get(env), "entry_point", "")
    return isinstance(entry, str) and entry.startswith(("gymnasium.envs.", "ees_mpi."))


def make(env: str, settings: dict[str, Any], **more: Any) -> Any:
    """Make the Gymnasium environment; raise an error that names the missing package or the unknown environment."""
    if ":" in env:
        require(env, "task.env")  # Gymnasium imports a module that is named before a colon
    gymnasium = library()
    if not is_known(env):
        require(env, "task.env")
    for place, value in flat(settings, "task.env_settings."):
        for _, leaf in leaves(value):
            if not isinstance(leaf, (bool, int, float)):
                require(leaf if isinstance(leaf, str) else env, place)
    if ":" in env:
        import_module(env.partition(":")[0], env, "task.env")  # also beside the config file
    try:
        with warnings.catch_warnings(), silence():  # Gymnasium warns about newer versions and deprecated models
            warnings.simplefilter("ignore")
            return gymnasium.make(env, **{**settings, **more})
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingExtra(f"task.env {env!r}: {error}") from None
    except gymnasium.error.UnregisteredEnv as error:
        hint = f"An environment of your own or of another package needs its module in front: module:{env}"
        if ":" in env:
            hint = f"The module {env.partition(':')[0]} was imported and does not register it"
        raise ConfigError(f"task.env {env!r}: {error} {hint}") from None
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        if "render_mode" in more and "render_mode" in str(error):  # of an environment without this argument
            raise ConfigError(f"task.env {env!r} cannot be drawn: it takes no render_mode") from None
        raise ConfigError(f"task.env {env!r} cannot be made: {error}") from None
    except (Exception, SystemExit) as error:
        if isinstance(error, AttributeError) and "render_mode" in more:
            raise  # the error of MuJoCo if a library for drawing is missing; `film` reports it
        raise ConfigError(str(failed(f"task.env {env}", "__init__()", error))) from error


def flattened(env: str, observation: Any, shape: tuple[int, ...]) -> Singles:
    """Return an observation as a flat vector; raise a PluginError if its size is not that of the space."""
    row = np.asarray(observation, np.float32).reshape(-1)
    if row.size != math.prod(shape):
        got = np.shape(observation)
        hint = "; does reset() return (observation, info)?" if got == shape[1:] else ""  # got: one row of it
        raise PluginError(f"task.env {env}: an observation has the shape {got}; expected {shape}{hint}")
    return row


def was_reset_by_mujoco(env: Any) -> bool:
    """Return whether MuJoCo reset the robot during the rollout, because its state was not finite."""
    warnings_seen = getattr(getattr(env.unwrapped, "data", None), "warning", None)
    if warnings_seen is None:
        return False
    from mujoco import mjtWarning

    bad = (mjtWarning.mjWARN_BADQPOS, mjtWarning.mjWARN_BADQVEL, mjtWarning.mjWARN_BADQACC)
    return any(warnings_seen[kind].number for kind in bad)


def picture_size(env: str, view: View) -> dict[str, int]:
    """Return the arguments that set the size of pictures; only MuJoCo's environments have them."""
    spec = library().registry.get(env)
    return {"width": view.width, "height": view.height} if "mujoco" in str(getattr(spec, "entry_point", "")) else {}
