import sys
from pathlib import Path

import pytest
from support.program import CHECKOUT

sys.path.insert(0, str(CHECKOUT / "jobs" / "paper"))  # the scripts import each other by name

from feasibility import compare, draw, lower_limit, table


def test_flips_are_measured_beside_what_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    rows = compare(count=1000)
    print(table(rows))
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1 + len(rows) and shown[1].startswith("uniform in (-d2, d2)")
    for row in rows:
        assert row.limit >= row.proved
        assert row.proved <= row.switch_alone + 1e-12
    gaussian = [row for row in rows if row.perturbations.startswith("Gaussian")]
    assert any(row.proved > 0.2 for row in gaussian) and any(row.proved < 1e-3 for row in gaussian)


@pytest.mark.parametrize(
    ("successes", "count", "confidence", "limit"),
    [
        (10, 10, 0.95, 0.05 ** (1 / 10)),
        (1, 10, 0.95, 1 - 0.95 ** (1 / 10)),
        (0, 5, 0.99, 0.0),
        (50, 100, 0.95, 0.413622),
    ],
)
def test_the_lower_limit_is_the_exact_one(successes: int, count: int, confidence: float, limit: float) -> None:
    assert lower_limit(successes, count, confidence) == pytest.approx(limit, abs=1e-5)


def test_the_figure_shows_both_functions(tmp_path: Path) -> None:
    out = tmp_path / "feasibility.svg"
    draw(str(out))
    assert "mutants of one network" in out.read_text()
