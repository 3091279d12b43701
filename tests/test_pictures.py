"""The programs behind the page on the replica and behind single pictures: they run, and print or draw what they say."""

from pathlib import Path

import pytest
from support.program import needs_results

pytest.importorskip("mujoco")
pytest.importorskip("pybullet")
pytest.importorskip("scipy")
pytest.importorskip("matplotlib")
import replica


@pytest.mark.parametrize("robot", replica.ROBOTS)
def test_the_replica_is_compared_with_bullet_from_the_same_states(
    robot: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "SEQUENCES", 2)
    source = replica.random_source(robot)
    replica.show_motion(robot)
    replica.show_positions(source, *replica.walk(source, count=4, seed=7, steps=5))
    replica.show_steps(source, walks=1, steps=3)
    *_, shown = capsys.readouterr().out.splitlines()
    assert "from each of 3 states" in shown
    assert float(shown.rpartition("100.0%: ")[2].rstrip(".")) < 1e-4  # one action from the same state


@needs_results
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ring", "heritable", "replica"])
def test_a_picture_is_drawn(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pictures

    monkeypatch.setattr(pictures, "PICTURES", tmp_path)
    pictures.PARTS[name]()
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
