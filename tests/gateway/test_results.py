"""What the guide says was measured is what was measured."""

import json
from pathlib import Path

from harness.gateway.results import GUIDE, RESULTS, with_table

ROOT = Path(__file__).parents[2]


def test_the_guides_table_is_made_from_the_results() -> None:
    guide = (ROOT / GUIDE).read_text(encoding="utf-8")
    known = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))

    assert with_table(guide, known) == guide
