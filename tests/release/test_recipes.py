import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name_of, pages

_RECIPE = re.compile(r"^([a-z_][a-z0-9_-]*)(?: [^:]*)?:(?!=)")
_NAMED = re.compile(r"`just ([a-z][a-z-]*)")


def recipes() -> dict[str, bool]:
    """Return the recipes of the justfile, and whether each is private."""
    found: dict[str, bool] = {}
    private = False
    for line in (ROOT / "justfile").read_text(encoding="utf-8").splitlines():
        if line == "[private]":
            private = True
        elif recipe := _RECIPE.match(line):
            found[recipe[1]] = private or recipe[1].startswith("_")
            private = False
    return found


def test_ten_recipes_are_listed() -> None:
    assert sum(not private for private in recipes().values()) == 10


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_recipe_that_a_page_names_is_there(page: Path) -> None:
    named = set(_NAMED.findall(page.read_text(encoding="utf-8")))

    assert named - recipes().keys() == set()
