"""What the pages say of the filter in Envoy is what was measured."""

import json
from pathlib import Path

import pytest

from harness.envoy_results import PAGES, RESULTS, with_table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, name, _ in PAGES])
def test_the_pages_tables_are_made_from_the_results(file: str, name: str) -> None:
    known = json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))
    page = (ROOT / file).read_text(encoding="utf-8")
    [lines] = [lines for at, part, lines in PAGES if (at, part) == (file, name)]

    assert with_table(page, name, lines(known)) == page


def test_a_page_without_a_place_for_a_table_is_told() -> None:
    with pytest.raises(ValueError, match="no place for faults"):
        with_table("nothing", "faults", iter([]))
