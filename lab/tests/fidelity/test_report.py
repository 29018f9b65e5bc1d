import gzip
import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness.html_pages import ATTACKS, Elements
from lab.harness.fidelity_run import SOURCES, write_run

from agora_lab.fidelity import page as pages
from agora_lab.fidelity.alignment import Shown, restore, shown
from agora_lab.fidelity.judged import RunError, prompts_of, read_prompts, read_run
from agora_lab.fidelity.page import MOST_ANCHORS, account, choose, page
from agora_lab.fidelity.records import read_anchors, read_measured, write_without_texts
from agora_lab.fidelity.recovered import Table, decisions
from agora_lab.fidelity.report import make, verdict

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("fidelity") / "run", tasks=6, steps=8)


@pytest.fixture(scope="module")
def out(folder: Path) -> Path:
    make(folder, folder.parent / "out", half="", beside=[folder])
    return folder.parent / "out"


@pytest.fixture(scope="module")
def data(out: Path) -> Any:
    return json.loads(Elements((out / "fidelity.html").read_text()).inside["script"][0])


def test_a_report_is_made_from_files_alone_and_twice_the_same(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        make(folder, tmp_path / name)

    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["fidelity.html", "fidelity.json", "fidelity.md"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_report_on_one_half_knows_nothing_of_the_other(folder: Path, tmp_path: Path) -> None:
    whole, half = make(folder, tmp_path, half=""), make(folder, tmp_path, half="validation")

    assert sum(one.drawn for one in half.passed) * 2 == sum(one.drawn for one in whole.passed)
    text = (tmp_path / "fidelity.html").read_text()
    tasks = {anchor["task"] for anchor in json.loads(Elements(text).inside["script"][0])["anchors"]}
    assert tasks
    assert all(int(task.split("-")[1]) % 2 == 0 for task in tasks)


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
    for title in ("AGORA 0.1's default", "LangChain", "the best at each anchor", "p after Holm"):
        assert title in text
    assert "a made-up judge on the same anchors ranks the methods alike by 1.00" in text


def test_the_page_of_results_takes_its_table_from_the_report(out: Path) -> None:
    maker = runpy.run_path(str(DOCS / "make_results.py"))
    lines = list(maker["fidelity"](json.loads((out / "fidelity.json").read_text()), "judge"))

    [row] = [line for line in lines if line.startswith("| `default` |")]
    assert row.count("[") == len(SOURCES)
    assert any(line.startswith("| method | airline (") for line in lines)
    assert any("(results/judge/fidelity.md)" in line for line in lines)


def test_the_verdict_says_where_it_is_ahead_behind_and_undecided(folder: Path) -> None:
    one, other, third, *_ = decisions(Table(read_run(folder)))
    ahead = replace(one, p_holm=0.01, ahead=replace(one.ahead, value=0.3))
    behind = replace(other, p_holm=0.01, ahead=replace(one.ahead, value=-0.3))
    open_ = replace(third, p_holm=0.5)

    assert verdict([ahead, behind, open_]) == (
        "AGORA 0.1's default recovers more than the newest steps in airline and less than the "
        "newest steps in retail; in coding it is undecided"
    )
    assert "cannot be told apart in coding" in verdict([open_])
    assert verdict([]) == "No comparison could be made yet"
    other = replace(ahead, ours="forms_now")
    assert verdict([other, open_]) == (
        "AGORA's default recovers more than the newest steps in airline. "
        "AGORA 0.1's default and the newest steps cannot be told apart in coding"
    )


def test_a_sentence_from_a_few_tasks_says_that_they_are_few(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tasks=1, per_task=1, steps=8)

    found = make(run, tmp_path / "out")

    assert "too few tasks to go by (1 anchor, 1 task)" in found.sentences[-1]


def test_the_page_fetches_nothing_and_its_policy_says_so(out: Path) -> None:
    elements = Elements((out / "fidelity.html").read_text())

    for tag, attributes in elements.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form", "video"}
        assert not {"src", "srcset", "action", "style"} & attributes.keys()
    policy = next(a["content"] for _, a in elements.tags if "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "__" not in policy
    for word in ("fetch(", "innerHTML", "eval(", "import("):
        assert word not in elements.inside["script"][1]


def test_the_page_holds_each_prompt_as_it_was_sent(folder: Path, data: Any) -> None:
    files = read_prompts(folder)

    assert len(data["anchors"]) == MOST_ANCHORS
    for anchor in data["anchors"]:
        prompts = prompts_of(files[anchor["key"]])
        before = [Shown(who, text) for who, text, _ in anchor["messages"]]
        assert before == [shown(one) for one in prompts["whole"]]
        assert set(anchor["views"]) == set(prompts["sent"])
        for name, view in anchor["views"].items():
            assert restore(before, view["parts"]) == [shown(m) for m in prompts["sent"][name]]
            assert len(view["nats"]) == len(anchor["pieces"])


def test_the_page_shows_some_of_each_source_and_not_only_what_went_well(
    folder: Path, data: Any
) -> None:
    table = Table(read_run(folder))
    assert {anchor["source"] for anchor in data["anchors"]} == set(SOURCES)
    keys = table.compared["airline"]
    chosen = choose(table, keys, 3)

    def ahead(key: str) -> float:
        newest, default = (table.lost(key, (m, 0.25), "action") for m in ("newest", "default"))
        return (newest - default) / table.lost(key, ("floor", None), "action")

    assert ahead(chosen[0]) == max(map(ahead, keys))
    assert ahead(chosen[1]) == min(map(ahead, keys))
    assert sorted(choose(table, keys, 99)) == sorted(keys)


def test_a_page_that_would_grow_too_large_shows_fewer_anchors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(read_run(folder))
    monkeypatch.setattr(pages, "MOST_BYTES", 100_000)

    data = account(table, {"half": "both"})

    assert 0 < len(data["anchors"]) < MOST_ANCHORS
    assert len(json.dumps(data, separators=(",", ":"))) <= 100_100


@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_stands_in_a_prompt_comes_back_as_data_and_never_as_markup(
    tmp_path: Path, attack: str
) -> None:
    plain = write_run(tmp_path / "run", tasks=1, per_task=1, steps=6)
    table = Table(read_run(plain))
    before = Elements(page(table, {}))
    for file in (plain / "prompts").iterdir():
        prompts = prompts_of(file)
        prompts["whole"][1]["content"] = attack
        file.write_bytes(gzip.compress(json.dumps(prompts).encode()))
    after = Elements(page(Table(read_run(plain)), {}))

    assert after.tags == before.tags
    assert after.inside["script"][1] == before.inside["script"][1]
    texts = [one["messages"][1][1] for one in json.loads(after.inside["script"][0])["anchors"]]
    assert texts
    assert set(texts) == {json.loads(json.dumps(attack))}


def test_a_copy_without_texts_reports_the_same_and_holds_no_text(
    folder: Path, tmp_path: Path
) -> None:
    write_without_texts(folder, tmp_path / "copy")
    make(folder, tmp_path / "one")
    make(tmp_path / "copy", tmp_path / "other")

    one, other = (
        json.loads((tmp_path / name / "fidelity.json").read_text()) for name in ("one", "other")
    )
    # Questions quote the data, so probes are not copied.
    about_probes = {"answered", "probes_agree"}
    assert {k: v for k, v in one.items() if k not in about_probes} == {
        k: v for k, v in other.items() if k not in about_probes
    }
    for row in read_measured(tmp_path / "copy"):
        assert not any(text for text, _, _ in row.pieces)
    assert not any(drawn.needed for drawn in read_anchors(tmp_path / "copy"))
