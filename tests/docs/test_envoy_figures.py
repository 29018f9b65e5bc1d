"""What the pages say of the filter in Envoy is what was measured."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.envoy_results import PAGES, Figures, with_table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("file", "name", "lines", "results"), PAGES)
def test_the_pages_tables_are_made_from_the_results(
    file: str, name: str, lines: Callable[[Figures], Iterator[str]], results: str
) -> None:
    known = json.loads((ROOT / results).read_text(encoding="utf-8"))
    page = (ROOT / file).read_text(encoding="utf-8")

    assert with_table(page, name, lines(known)) == page


def test_a_page_without_a_place_for_a_table_is_told() -> None:
    with pytest.raises(ValueError, match="no place for faults"):
        with_table("nothing", "faults", iter([]))
