"""The robots that come with Gymnasium, described so that a config can be read without MuJoCo."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Robot:
    """A robot of Gymnasium v5: its file, its sizes, and when it counts as fallen."""

    file: str
    observations: int
    actions: int
    axes: int  # of the position that make the behaviour
    integrator: str  # the default of `task.integrator`; empty: as the file says
    height: tuple[float, float] | None  # range of the root's z outside of which a rollout ends; None: never


ROBOTS = {
    "cheetah": Robot("half_cheetah.xml", 17, 6, 1, "", None),
    # The file asks for RK4, which is three times as slow.
    "ant": Robot("ant.xml", 27, 8, 2, "implicitfast", (0.2, 1.0)),
}
