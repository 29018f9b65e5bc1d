from pathlib import Path

from harness.imports import cycles, graph, named_across
from harness.shape import asked_by_class, classes_with, long_functions

LAB = Path(__file__).parents[1]
SOURCE = LAB / "src" / "agora_lab"
PRODUCT = LAB.parent / "src" / "agora"


def test_no_module_of_the_lab_needs_itself_by_way_of_others() -> None:
    imports = graph(SOURCE)

    assert len(imports) > 50
    assert cycles(imports) == []


def test_no_function_of_the_lab_is_longer_than_eighty_lines() -> None:
    assert long_functions(SOURCE, 80) == []


def test_nothing_in_the_lab_asks_for_the_class_of_a_schedule() -> None:
    schedules = classes_with(PRODUCT, "edit", "sizes") | classes_with(SOURCE, "edit", "sizes")

    assert schedules >= {"Schedule", "EveryCall", "Never", "RentOrBuy"}
    assert asked_by_class(SOURCE, schedules) == []


def test_tests_and_benchmarks_of_the_lab_do_not_import_each_other() -> None:
    tests, benchmarks, harness = LAB / "tests", LAB / "benchmarks", LAB / "harness"

    assert named_across((tests, SOURCE), ("benchmarks", "lab.benchmarks", "tests")) == []
    assert named_across((benchmarks,), ("tests", "lab.tests")) == []
    assert named_across((harness,), ("tests", "lab.tests", "lab.benchmarks")) == []
