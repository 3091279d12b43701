"""The picture of the two engines shows both of them, each robot at each moment, and nothing of it is cut off."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import needs_results

pytest.importorskip("matplotlib", reason="needs the extra analysis")
pytestmark = needs_results


def test_the_replica_is_drawn_over_bullet_at_every_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    import pictures

    steps, limbs, drawn = 40, 3, []

    def walk(robot: str, engine: str) -> tuple[np.ndarray, float]:
        """Move a robot to the left, by two units in all and a little further in one engine."""
        places = np.zeros((steps, limbs, 7))
        places[..., [0, 3]] = -(2 + 0.2 * (engine == "bullet")) * np.linspace(0, 1, steps)[:, None, None]
        places[..., 6] = 0.1
        return places, 0.1

    def keep(figure: Any, path: Path, **how: Any) -> None:
        drawn.append((path.name, figure))

    monkeypatch.setattr(pictures, "walk", walk)
    monkeypatch.setattr(pictures.pyplot.Figure, "savefig", keep)
    pictures.replica()
    ((name, figure),) = drawn
    assert name == "replica.png" and len(figure.axes) == len(pictures.SEEN) * len(pictures.MOMENTS)
    for panel in figure.axes:
        engines = [tuple(patch.get_facecolor()) for patch in panel.patches]
        assert len(engines) == 2 * limbs and len(set(engines)) == 2
        outlines = np.concatenate([patch.get_xy() for patch in panel.patches])
        low, high = np.transpose([panel.get_xlim(), panel.get_ylim()])
        assert (low <= outlines).all() and (outlines <= high).all()
    pictures.pyplot.close(figure)
