"""The settings of Gymnasium's own environments that a run file may carry without trust: numbers, ranges and switches.

All others need trust. Some open files (`xml_file`) or windows (`render_mode`), and those of other packages are unknown.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from ees_mpi.registry import check_setting, flat

OWN = ("gymnasium.envs.", "ees_mpi.")  # modules of environments whose settings are known
Number = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]
Range = tuple[Number, Number]
Skip = Annotated[int, msgspec.Meta(ge=1, le=1000)]

TYPES: dict[str, Any] = {
    **dict.fromkeys(
        (
            *("forward_reward_weight", "ctrl_cost_weight", "contact_cost_weight", "impact_cost_weight"),
            *("uph_cost_weight", "reward_near_weight", "reward_dist_weight", "reward_control_weight"),
            *("healthy_reward", "reset_noise_scale", "g", "gravity", "wind_power", "turbulence_power", "goal_velocity"),
        ),
        Number,
    ),
    **dict.fromkeys(
        (
            *("healthy_z_range", "healthy_state_range", "healthy_angle_range"),
            *("contact_force_range", "contact_cost_range", "impact_cost_range"),
        ),
        Range,
    ),
    **dict.fromkeys(
        (
            *("terminate_when_unhealthy", "use_contact_forces", "exclude_current_positions_from_observation"),
            *("include_cfrc_ext_in_observation", "include_cinert_in_observation", "include_cvel_in_observation"),
            *("include_qfrc_actuator_in_observation", "continuous", "enable_wind", "hardcore", "sutton_barto_reward"),
        ),
        bool,
    ),
    "frame_skip": Skip,
    "main_body": Skip,
    "max_episode_steps": Annotated[int, msgspec.Meta(ge=1)],
}


def is_known(gymnasium: Any, env: str) -> bool:
    """Return whether an environment is Gymnasium's own, or ours."""
    entry = getattr(gymnasium.registry.get(env), "entry_point", "")
    return isinstance(entry, str) and entry.startswith(OWN)


def check_settings(gymnasium: Any, env: str, settings: Mapping[str, Any]) -> None:
    """Raise a TrustError for the first setting of a run file that is not one of `TYPES`, or has another type."""
    for name, value in settings.items():
        if not (is_known(gymnasium, env) and name in TYPES and _is(value, TYPES[name])):
            for place, inner in flat({name: value}, "task.env_settings."):
                check_setting(place, inner)


def _is(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
