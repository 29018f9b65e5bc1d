import json
from dataclasses import replace
from pathlib import Path

import pytest
from lab.harness.fidelity_run import SOURCES, write_run

from agora_lab.judge.judged import RunError, read_run
from agora_lab.judge.records import read_anchors, read_measured, write_without_texts
from agora_lab.judge.recovered import Table, decisions
from agora_lab.judge.report import make, verdict


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("fidelity") / "run", tasks=6, steps=8)


@pytest.fixture(scope="module")
def out(folder: Path) -> Path:
    make(folder, folder.parent / "out", half="", beside=[folder])
    return folder.parent / "out"


def test_a_report_is_made_from_files_alone_and_twice_the_same(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        make(folder, tmp_path / name)

    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["fidelity.json", "fidelity.md"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_report_on_one_half_knows_nothing_of_the_other(folder: Path, tmp_path: Path) -> None:
    whole, half = make(folder, tmp_path, half=""), make(folder, tmp_path, half="validation")

    assert sum(one.drawn for one in half.passed) * 2 == sum(one.drawn for one in whole.passed)


def test_a_run_with_nothing_to_compare_yet_is_refused(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "run"
    empty.mkdir()
    (empty / "plan.json").write_text((folder / "plan.json").read_text())

    with pytest.raises(RunError, match="let the run go on"):
        make(empty, tmp_path / "out")


def test_the_markdown_has_the_verdict_every_method_and_a_sentence_per_kind(out: Path) -> None:
    text = (out / "fidelity.md").read_text()
    found = json.loads((out / "fidelity.json").read_text())

    assert found["verdict"] in text
    assert len(found["sentences"]) == len(set(SOURCES.values()))
    for sentence in found["sentences"]:
        assert sentence in text
    for title in ("AGORA's default", "LangChain", "the best at each anchor", "p after Holm"):
        assert title in text
    assert "a made-up judge on the same anchors ranks the methods alike by 1.00" in text


def test_the_verdict_says_where_it_is_ahead_behind_and_undecided(folder: Path) -> None:
    one, other, third, *_ = decisions(Table(read_run(folder)))
    ahead = replace(one, p_holm=0.01, ahead=replace(one.ahead, value=0.3))
    behind = replace(other, p_holm=0.01, ahead=replace(one.ahead, value=-0.3))
    open_ = replace(third, p_holm=0.5)

    assert verdict([ahead, behind, open_]) == (
        "AGORA's default recovers more than the newest steps in airline and less than the "
        "newest steps in retail; in coding it is undecided"
    )
    assert "cannot be told apart in coding" in verdict([open_])
    assert verdict([]) == "No comparison could be made yet"
    other = replace(ahead, ours="masking")
    assert verdict([other, open_]) == (
        "Old results masked recovers more than the newest steps in airline. "
        "AGORA's default and the newest steps cannot be told apart in coding"
    )


def test_a_sentence_from_a_few_tasks_says_that_they_are_few(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tasks=1, per_task=1, steps=8)

    found = make(run, tmp_path / "out")

    assert "too few tasks to go by (1 anchor, 1 task)" in found.sentences[-1]


def test_a_copy_without_texts_reports_the_same_and_holds_no_text(
    folder: Path, tmp_path: Path
) -> None:
    write_without_texts(folder, tmp_path / "copy")
    make(folder, tmp_path / "one")
    make(tmp_path / "copy", tmp_path / "other")

    one, other = (
        json.loads((tmp_path / name / "fidelity.json").read_text()) for name in ("one", "other")
    )
    assert one == other
    for row in read_measured(tmp_path / "copy"):
        assert not any(text for text, _, _ in row.pieces)
    assert not any(drawn.needed for drawn in read_anchors(tmp_path / "copy"))
