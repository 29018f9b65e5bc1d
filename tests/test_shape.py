import re
from pathlib import Path

import pytest

from harness.shape import asked_by_class, classes_with, long_functions, long_modules

SOURCE = Path(__file__).parents[1] / "src" / "agora"


def test_no_function_is_longer_than_eighty_lines() -> None:
    assert long_functions(SOURCE, 80) == []


def test_the_gateway_has_no_function_above_sixty_lines_and_no_module_above_450() -> None:
    assert long_functions(SOURCE / "gateway", 60) == []
    assert long_modules(SOURCE / "gateway", 450) == []


def test_a_long_module_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("pass\n" * 3)

    assert long_modules(tmp_path, 2) == ["a.py (3)"]
    assert long_modules(tmp_path, 3) == []


def test_an_exchange_is_one_class() -> None:
    defined = [
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if re.search(r"^class _?Exchange\b", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]

    assert defined == ["gateway/watching/exchange.py"]


def test_a_long_function_is_found_wherever_it_is(tmp_path: Path) -> None:
    inner = "    async def inner(self):\n" + "        pass\n" * 80
    (tmp_path / "a.py").write_text(f"class A:\n{inner}")

    assert long_functions(tmp_path, 80) == ["a.py:2 inner (81)"]
    assert long_functions(tmp_path, 81) == []


def test_nothing_asks_for_the_class_of_a_schedule() -> None:
    schedules = classes_with(SOURCE, "edit", "sizes")

    assert schedules >= {"Schedule", "EveryCall", "Never", "RentOrBuy"}
    assert asked_by_class(SOURCE, schedules) == []


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(x, Never)",
        "isinstance(x, (int, s.Never))",
        "isinstance(x, int | Never)",
        "issubclass(type(x), Never)",
        "type(x) is Never",
        "x.__class__ == s.Never",
    ],
)
def test_every_way_to_ask_for_a_class_is_found(question: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"y = {question}\n")

    assert asked_by_class(tmp_path, {"Never"}) == ["a.py:1"]
    assert asked_by_class(tmp_path, {"Other"}) == []


def test_a_class_in_a_match_is_found_and_making_one_is_no_question(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("y = Never()\nmatch y:\n    case Never():\n        pass\n")

    assert asked_by_class(tmp_path, {"Never"}) == ["a.py:3"]
