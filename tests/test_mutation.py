"""The faults with which tests are tried: each is one, and leaves a source that can be read."""

import ast
from pathlib import Path

import pytest

from harness.mutants import NEAR, ROOT, WIDE, drawn, near, wilson
from harness.mutation import mutants_of

SOURCE = '''"""About é."""

def both(one: int = 3, other: str = "ß") -> bool:
    """Say so."""
    if not one or other == "x":
        print(f"{one > 2}")
    return any(one < n for n in range(2))
'''


def changes_of(source: str) -> set[tuple[str, str, str]]:
    return {(one.kind, one.was(source), one.now) for one in mutants_of(source)}


def test_each_kind_of_place_is_found_and_no_words_about_the_code() -> None:
    found = changes_of(SOURCE)

    assert ("and/or", 'not one or other == "x"', "(not one and other == 'x')") in found
    assert ("comparison", "one < n", "(one <= n)") in found
    assert any(kind == "condition" for kind, _, _ in found)
    assert ("any/all", "any", "all") in found
    assert ("negation", "not one", "(one)") in found
    assert ("removed", 'print(f"{one > 2}")', "pass") in found
    assert ("constant", "3", "4") in found
    assert ("constant", '"ß"', "'XXß'") in found
    assert any(kind == "return" and now.startswith("return (not (any(") for kind, _, now in found)
    assert not any("Say so" in was or "About" in was for _, was, _ in found)


@pytest.mark.parametrize(
    "path", ["core/reading/outcome.py", "core/schedule.py", "adapters/frames.py"]
)
def test_every_mutant_is_another_program_that_can_be_read(path: str) -> None:
    source = (ROOT / "src" / "agora" / path).read_text(encoding="utf-8")
    as_it_is = ast.dump(ast.parse(source))

    for mutant in mutants_of(source):
        assert ast.dump(ast.parse(mutant.of(source))) != as_it_is, mutant


def test_a_greater_count_draws_on() -> None:
    assert [place.key for place in drawn(9, 1)[:4]] == [place.key for place in drawn(4, 1)]
    assert [place.key for place in drawn(9, 1)] != [place.key for place in drawn(9, 2)]


def test_every_test_file_that_is_named_is_there() -> None:
    for module in NEAR:
        assert all((ROOT / path).exists() for path in near(f"{module}.py"))
        assert [*Path(ROOT / "src").glob(f"{module}*")], module
    assert all((ROOT / path).exists() for path in WIDE)


def test_the_interval_of_a_share_holds_the_share() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    for part in range(21):
        low, high = wilson(part, 20)
        assert 0 <= round(low, 9) <= part / 20 <= round(high, 9) <= 1
