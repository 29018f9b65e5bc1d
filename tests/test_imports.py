from pathlib import Path

from harness.imports import cycles, from_own_face, graph, named_across

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "agora"


def test_no_module_needs_itself_by_way_of_others() -> None:
    imports = graph(SOURCE)

    assert len(imports) > 50
    assert cycles(imports) == []


def test_a_cycle_through_a_package_face_is_found(tmp_path: Path) -> None:
    package = tmp_path / "p"
    (package / "q").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from p.q.c import z")
    (package / "q" / "__init__.py").write_text("from p.b import y")
    (package / "q" / "c.py").write_text("")
    (package / "b.py").write_text("def y():\n    from p import a")

    assert cycles(graph(package)) == [["p.a", "p.b", "p.q"]]

    (package / "q" / "__init__.py").write_text("")
    assert cycles(graph(package)) == []


def test_no_module_imports_from_the_face_of_its_own_package() -> None:
    assert from_own_face(SOURCE) == []


def test_an_import_from_ones_own_face_is_found_unless_the_face_is_only_a_name(
    tmp_path: Path,
) -> None:
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("from p.a import x")
    (package / "a.py").write_text("from p import b")
    (package / "b.py").write_text("from p.a import x")

    assert from_own_face(package) == ["a.py: p"]

    (package / "__init__.py").write_text("")
    assert from_own_face(package) == []


def test_the_product_does_not_name_the_lab() -> None:
    assert named_across((SOURCE,), ("agora_lab", "lab")) == []


def test_tests_and_benchmarks_share_a_harness_and_do_not_import_each_other() -> None:
    tests, benchmarks, harness = ROOT / "tests", ROOT / "benchmarks", ROOT / "harness"

    assert named_across((tests,), ("benchmarks", "lab", "agora_lab")) == []
    assert named_across((benchmarks,), ("tests", "lab", "agora_lab")) == []
    assert named_across((harness,), ("tests", "benchmarks", "lab", "agora_lab")) == []
