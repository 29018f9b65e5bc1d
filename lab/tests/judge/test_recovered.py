import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.harness.fidelity_run import SOURCES, write_run

from agora_lab.judge import recovered
from agora_lab.judge.judged import (
    MAIN_KEEP,
    TARGETS,
    Judged,
    RunError,
    Target,
    has,
    nats,
    read_run,
)
from agora_lab.judge.records import DrawnAnchor, Measured
from agora_lab.judge.recovered import ORACLE, Table
from agora_lab.judge.rows import EVERYTHING, FLOOR


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("fidelity") / "run", tasks=6, steps=8)


@pytest.fixture(scope="module")
def table(folder: Path) -> Table:
    return Table(read_run(folder))


def anchor(key: str, *, task: str, passed: bool | None = True, source: str = "made") -> DrawnAnchor:
    return DrawnAnchor(
        anchor=key,
        source=source,
        kind="tools",
        task=task,
        half="validation",
        step=3,
        tokens_whole=100,
        tokens_floor=20,
        needed=("x1",),
        passed=passed,
        gap=None,
    )


def row(own: DrawnAnchor, method: str, keep: float | None, lost: float) -> Measured:
    return Measured(
        anchor=own.anchor,
        source=own.source,
        kind=own.kind,
        task=own.task,
        half=own.half,
        method=method,
        keep=keep,
        tokens_whole=100,
        tokens_floor=20,
        tokens_sent=40,
        changed=True,
        seconds=1.0,
        read_tokens=40,
        pieces=(("x", lost, "needed"), ("y", 1.0, "")),
    )


def made(values: list[tuple[str, float, float, float, float]], passed: bool = True) -> Judged:
    """Return a run of anchors: task, then nats of everything, the floor, newest and forms_now."""
    anchors, rows = {}, []
    for number, (task, *values_of) in enumerate(values):
        own = anchor(f"made|{number}", task=task, passed=passed)
        anchors[own.anchor] = own
        settings = ((EVERYTHING, None), (FLOOR, None), ("newest", 0.25), ("forms_now", 0.25))
        rows += [row(own, m, k, n) for (m, k), n in zip(settings, values_of, strict=True)]
    return Judged(Path(), {"methods": ["newest", "forms_now"]}, anchors, tuple(rows))


NATS = st.floats(0, 30)
ANCHORS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.just(0.5), st.floats(3, 30), NATS, NATS),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(values=ANCHORS)
def test_a_share_is_the_ratio_of_what_was_won_back_to_all_gaps(
    values: list[tuple[str, float, float, float, float]],
) -> None:
    found = recovered.shares(Table(made(values)), "action")

    own = next(one for one in found if one.method == "forms_now" and one.group == "made")
    gap = sum(floor - everything for _, everything, floor, _, _ in values)
    won = sum(floor - default for _, _, floor, _, default in values)
    assert own.share.value == pytest.approx(won / gap, abs=1e-5)
    assert own.share.n == len({task for task, *_ in values})
    assert own.anchors == len(values)


@settings(deadline=None)
@given(values=ANCHORS)
def test_no_method_recovers_more_than_the_best_at_each_anchor(
    values: list[tuple[str, float, float, float, float]],
) -> None:
    found = recovered.shares(Table(made(values)), "action")

    by_name = {one.method: one.share.value for one in found if one.group == "made"}
    assert by_name[ORACLE] >= max(by_name["forms_now"], by_name["newest"]) - 1e-5


@settings(deadline=None)
@given(values=ANCHORS, others=ANCHORS)
def test_anchors_that_did_not_pass_change_nothing(
    values: list[tuple[str, float, float, float, float]],
    others: list[tuple[str, float, float, float, float]],
) -> None:
    run = made(values)
    failed = made(others, passed=False)
    more = {f"{key}-no": replace(one, anchor=f"{key}-no") for key, one in failed.anchors.items()}
    rows = tuple(replace(one, anchor=f"{one.anchor}-no") for one in failed.rows)
    both = replace(run, anchors={**run.anchors, **more}, rows=run.rows + rows)

    assert recovered.shares(Table(both), "action") == recovered.shares(Table(run), "action")
    assert recovered.decisions(Table(both)) == recovered.decisions(Table(run))


def test_an_anchor_without_a_row_of_the_headline_is_not_compared() -> None:
    run = made([("a", 0.0, 9.0, 4.0, 2.0), ("b", 0.0, 9.0, 4.0, 2.0)])
    rows = tuple(one for one in run.rows if (one.anchor, one.method) != ("made|1", "newest"))
    [counts] = recovered.passed(Table(replace(run, rows=rows)))

    assert (counts.passed, counts.compared, counts.tasks) == (2, 1, 1)


def test_the_target_of_needed_identifiers_counts_them_alone_and_the_message_everything() -> None:
    own = row(anchor("k", task="t"), "forms_now", 0.25, 4.0)
    pieces = (("a", 1.0, ""), ("b", 2.0, "action"), ("c", 4.0, "needed"))
    found = replace(own, pieces=pieces)

    assert [nats(found, target) for target in TARGETS] == [6.0, 4.0, 7.0]
    assert not has(replace(found, pieces=pieces[:2]), "needed")


def test_a_run_says_what_it_was_made_to_say(table: Table) -> None:
    found = recovered.shares(table, "action")

    for source in SOURCES:
        own = {(one.method, one.keep): one for one in found if one.group == source}
        # Markers name what the newest steps lose; masked results lose it too.
        assert own["forms_now", 0.5].share.value > own["newest", 0.5].share.value
        assert own["masking", MAIN_KEEP].share.value < 0.6
        assert own["forms_now", 0.5].ahead is not None
        assert own["newest", 0.15].ahead is None
        assert own["newest", 0.15].sent_outside < own["newest", 0.5].sent_outside <= 0.5


def test_a_kind_of_agent_pools_the_anchors_of_its_sources(table: Table) -> None:
    groups = table.groups()

    assert groups["kind:tools"] == [*groups["airline"], *groups["retail"]]
    assert set(groups) == {*SOURCES, *(f"kind:{kind}" for kind in SOURCES.values())}


def test_only_the_comparisons_named_before_are_corrected_for_being_so_many(folder: Path) -> None:
    run = read_run(folder)
    first = replace(run, plan={**run.plan, "headline": run.plan["headline"][:1]})

    [alone] = recovered.decisions(Table(first))
    everywhere = recovered.decisions(Table(run))

    assert alone.p_holm == alone.p
    assert [one.source for one in everywhere] == list(SOURCES)
    assert everywhere[0].p == alone.p
    assert max(one.p_holm for one in everywhere) >= alone.p_holm


def test_without_a_named_headline_ours_stands_against_the_newest(folder: Path) -> None:
    run = read_run(folder)
    plain = replace(run, plan={"model": "m"})
    named = replace(run, plan={"sources": ["retail", "coding"]})

    assert [(one.source, one.ours, one.theirs) for one in plain.headline] == [
        (source, "forms_now", "newest") for source in SOURCES
    ]
    assert [one.source for one in named.headline] == ["retail", "coding"]
    assert named.sources == ("retail", "coding", "airline", "intercode", "scienceworld")


@pytest.mark.parametrize("target", TARGETS)
def test_two_halves_share_no_task_and_their_sums_are_the_whole(
    table: Table, target: Target
) -> None:
    for one in recovered.steady(table, target):
        keys = table.groups()[one.group]
        tasks = {table.task(key) for key in keys}
        assert sum(one.tasks) == len(tasks)
        for method, first, second in one.shares:
            whole = recovered.plain_share(table, keys, (method, MAIN_KEEP), target)
            assert min(first, second) - 1e-5 <= whole <= max(first, second) + 1e-5


def test_a_judge_agrees_with_itself(table: Table) -> None:
    for one in recovered.judges_agree(table, table):
        assert one.rank_correlation == 1.0


def test_a_method_that_has_just_begun_does_not_take_the_others_anchors_away(folder: Path) -> None:
    run = read_run(folder)
    begun = set(list(run.anchors)[::5])
    rows = tuple(one for one in run.rows if one.method != "litellm" or one.anchor in begun)
    found = recovered.steady(Table(replace(run, rows=rows)))

    assert all("litellm" not in [name for name, *_ in one.shares] for one in found)
    assert [one.tasks for one in found] == [one.tasks for one in recovered.steady(Table(run))]


def test_a_line_written_twice_counts_as_it_was_written_last(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    first = json.loads((copy / "fidelity.jsonl").read_text().splitlines()[0])
    with (copy / "fidelity.jsonl").open("a") as lines:
        lines.write(json.dumps({**first, "tokens_sent": 7}) + "\n" + '{"anchor": "half a li')
    found = [
        one
        for one in read_run(copy).rows
        if (one.anchor, one.method, one.keep) == (first["anchor"], first["method"], first["keep"])
    ]

    assert [one.tokens_sent for one in found] == [7]


def test_a_folder_without_a_run_is_refused_with_what_would_help(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no plan\.json"):
        read_run(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "anchors.jsonl").write_text("no json\n")
    with pytest.raises(RunError, match="no record of a run"):
        read_run(tmp_path)


def test_what_hangs_on_one_anchor_is_said() -> None:
    values = [("a", 0.0, 90.0, 90.0, 90.0), ("b", 0.0, 5.0, 5.0, 0.0), ("c", 0.0, 5.0, 0.0, 1.0)]

    found = recovered.without_heaviest(Table(made(values)))

    own = {one.method: one for one in found if one.group == "made"}
    assert own["forms_now"].weight == pytest.approx(0.9)
    assert own["forms_now"].anchors == 2
    assert own["forms_now"].share.value == pytest.approx(0.9)
    assert own["newest"].share.value == pytest.approx(0.5)
    assert own["forms_now"].median == pytest.approx(0.8)


def test_where_one_anchor_is_all_there_is_nothing_hangs_on_it() -> None:
    assert recovered.without_heaviest(Table(made([("a", 0.0, 9.0, 9.0, 1.0)]))) == []
