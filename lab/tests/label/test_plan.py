import dataclasses
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.tests.label.making import cases, plain_case

from agora.core.prices import PriceSheet
from agora_lab.label.cases import Case, Message, joined
from agora_lab.label.plan import (
    PlanError,
    PlanSettings,
    Summary,
    asks,
    pairs,
    read_plan,
    request,
    request_key,
    write_plan,
)

BOTH = PlanSettings(backbone="b", kinds=("counterfactual", "likelihood"))
SETTINGS = st.builds(
    PlanSettings,
    backbone=st.just("b"),
    kinds=st.sampled_from([("counterfactual",), ("likelihood",), BOTH.kinds]),
    k_recent=st.integers(0, 3),
    anchors=st.none() | st.integers(1, 4),
    candidates=st.none() | st.integers(1, 4),
    longest=st.none() | st.integers(1, 200),
    seed=st.integers(0, 3),
)


def long_case(steps: int, *, name: str = "a", task: str = "find it") -> Case:
    return plain_case(
        [f"open box {n}" for n in range(steps)],
        [f"box {n} holds key {n}" for n in range(steps)],
        name=name,
        task=task,
    )


def flat(messages: Sequence[Message]) -> str:
    return "".join(f"<{one['role']}>{one['content']}" for one in messages)


@settings(max_examples=50, deadline=None)
@given(cases(), SETTINGS)
def test_every_pair_and_every_whole_prompt_is_asked_exactly_once(
    case: Case, chosen: PlanSettings
) -> None:
    found = list(asks(7, case, chosen))

    planned = list(pairs(case, chosen))
    for kind in {ask.kind for ask in found}:
        mine = [(ask.anchor, ask.candidate) for ask in found if ask.kind == kind]
        assert sorted(one for one in mine if one[1]) == sorted(planned)
        assert [one for one in mine if not one[1]] == [
            (a, 0) for a in sorted({a for a, _ in planned})
        ]
    assert bool(found) == bool(planned)
    assert [ask.order for ask in found] == list(range(len(found)))
    assert {ask.case for ask in found} <= {7}


@settings(max_examples=50, deadline=None)
@given(cases(), SETTINGS)
def test_only_steps_outside_the_floor_are_left_out(case: Case, chosen: PlanSettings) -> None:
    for anchor, candidate in pairs(case, chosen):
        assert candidate in case.candidates(anchor, k_recent=chosen.k_recent)
        assert candidate < anchor - max(1, chosen.k_recent)
        assert case.prompt(anchor, candidate)[-1] == case.prompt(anchor)[-1]
        assert case.prompt(anchor)[-1]["role"] == "user"


@settings(max_examples=50, deadline=None)
@given(cases(), SETTINGS)
def test_a_prompt_begins_as_the_one_before_it_up_to_the_step_it_leaves_out(
    case: Case, chosen: PlanSettings
) -> None:
    found = list(asks(0, case, chosen))

    for before, ask in pairwise(found):
        shared = flat(case.prompt(before.anchor, before.candidate))
        if ask.candidate != before.candidate:
            shared = flat(joined(case.messages[: case.steps[ask.candidate - 1][0]]))
        assert flat(case.prompt(before.anchor, before.candidate)).startswith(shared)
        assert flat(case.prompt(ask.anchor, ask.candidate)).startswith(shared)
    for ask in found:
        assert ask.new_tokens <= ask.prompt_tokens


@settings(max_examples=50, deadline=None)
@given(cases(), SETTINGS)
def test_the_request_of_an_ask_is_its_prompt_under_its_key(
    case: Case, chosen: PlanSettings
) -> None:
    for ask in asks(0, case, chosen):
        made = request(ask, case, chosen)

        assert list(made.messages) == case.prompt(ask.anchor, ask.candidate)
        assert made.key == ask.key
        assert (made.continuation is None) == (ask.kind == "sample")
        assert 0 <= made.seed < 2**31


CHANGES: dict[str, Any] = {
    "backbone": "other",
    "revision": "2",
    "samples": 3,
    "temperature": 0.5,
    "max_tokens": 7,
    "stop": ("\n",),
    "seed": 5,
    "kinds": ("likelihood",),
    "k_recent": 1,
    "anchors": 2,
    "candidates": 2,
    "longest": 10_000,
}
SAMPLED = {"samples", "temperature", "max_tokens", "stop", "seed"}
CONTENT = {"backbone", "revision"}


@pytest.mark.parametrize("name", CHANGES)
def test_a_key_depends_on_what_the_answer_can_depend_on_and_on_nothing_else(name: str) -> None:
    messages = long_case(5).prompt(5)
    other = dataclasses.replace(BOTH, **{name: CHANGES[name]})

    samples = {request_key(messages, "sample", one, "act") for one in (BOTH, other)}
    scores = {request_key(messages, "score", one, "act") for one in (BOTH, other)}

    assert (len(samples) == 2) == (name in SAMPLED | CONTENT)
    assert (len(scores) == 2) == (name in CONTENT)


def test_every_setting_is_in_the_list_of_changes() -> None:
    assert CHANGES.keys() == {field.name for field in dataclasses.fields(PlanSettings)}


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=5)}
    ),
    max_size=4,
)


@settings(max_examples=50, deadline=None)
@given(MESSAGES, MESSAGES, st.text(max_size=3), st.text(max_size=3))
def test_two_prompts_have_one_key_only_if_they_are_one(
    first: list[dict[str, str]], second: list[dict[str, str]], action: str, other: str
) -> None:
    same = joined(first) == joined(second)
    sample = request_key(first, "sample", BOTH, action)
    score = request_key(first, "score", BOTH, action)

    assert (sample == request_key(second, "sample", BOTH, other)) == same
    assert (score == request_key(second, "score", BOTH, other)) == (same and action == other)
    assert sample != score


def test_who_recorded_a_case_is_no_part_of_its_keys() -> None:
    case = long_case(6)
    other = dataclasses.replace(case, trajectory="z", source="y", task="x", data="0" * 64)

    assert [a.key for a in asks(0, case, BOTH)] == [a.key for a in asks(3, other, BOTH)]


def test_a_case_that_changed_since_is_not_asked_about() -> None:
    case = long_case(6)
    ask = next(asks(0, case, BOTH))

    with pytest.raises(PlanError, match="make the plan again"):
        request(ask, long_case(6, task="find another"), BOTH)


@settings(max_examples=20, deadline=None)
@given(st.lists(cases(), max_size=4), SETTINGS)
def test_a_plan_reads_back_as_it_was_written_and_is_the_same_bytes_twice(
    some: list[Case], chosen: PlanSettings
) -> None:
    with TemporaryDirectory() as name:
        folder, other = Path(name) / "a", Path(name) / "b"
        if not any(True for case in some for _ in pairs(case, chosen)):
            with pytest.raises(PlanError, match="would ask nothing"):
                write_plan(folder, iter(some), chosen)
            return
        summary = write_plan(folder, iter(some), chosen)
        write_plan(other, iter(some), chosen)
        plan = read_plan(folder, check=True)
        found, known = list(plan.asks()), list(plan.cases())

        for part in ("plan.json", "cases.parquet", "asks.parquet"):
            assert (folder / part).read_bytes() == (other / part).read_bytes()
        assert plan.settings == chosen
        assert plan.summary == summary
        assert known == list({case.data: case for case in some}.values())
        wanted = {a.key for n, case in enumerate(known) for a in asks(n, case, chosen)}
        assert [ask.order for ask in found] == list(range(summary.calls))
        assert len({ask.key for ask in found}) == len(found)
        assert {ask.key for ask in found} == wanted
        assert all(request(ask, known[ask.case], chosen).key == ask.key for ask in found)
        assert summary.pairs == sum(1 for case in known for _ in pairs(case, chosen))


def test_the_same_prompt_of_two_trajectories_is_asked_once(tmp_path: Path) -> None:
    once, more = long_case(5), long_case(7, name="b")

    summary = write_plan(tmp_path / "plan", [once, long_case(5, task="other"), more], BOTH)

    shared = len(list(asks(0, once, BOTH)))
    assert summary.shared == shared
    assert summary.calls == 2 * shared + len(list(asks(0, more, BOTH))) - shared


def test_a_trajectory_that_came_before_is_passed_over(tmp_path: Path) -> None:
    summary = write_plan(tmp_path / "plan", [long_case(5), long_case(5, name="again")], BOTH)

    assert (summary.trajectories, summary.passed_over, summary.shared) == (1, 1, 0)


def test_reading_the_prompts_in_order_costs_a_fraction_of_reading_them_all(tmp_path: Path) -> None:
    summary = write_plan(tmp_path / "plan", [long_case(30)], PlanSettings(backbone="b"))

    # 27 anchors, 378 pairs: each pass over the candidates reads every step after it once.
    assert summary.pairs == 378
    assert summary.new_tokens < summary.prompt_tokens / 10


def test_a_plan_is_never_written_over(tmp_path: Path) -> None:
    write_plan(tmp_path, [long_case(5)], BOTH)

    with pytest.raises(PlanError, match="already exists"):
        write_plan(tmp_path, [long_case(6)], BOTH)


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    write_plan(tmp_path, [long_case(5)], BOTH)
    (tmp_path / "asks.parquet").write_bytes(b"")

    with pytest.raises(PlanError, match=r"a changed asks\.parquet"):
        read_plan(tmp_path, check=True)


def test_a_plan_of_another_schema_is_not_read(tmp_path: Path) -> None:
    write_plan(tmp_path, [long_case(5)], BOTH)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 0}))

    with pytest.raises(PlanError, match="schema 0"):
        read_plan(tmp_path)


def test_where_there_is_no_plan_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"no readable plan\.json"):
        read_plan(tmp_path)


def test_cases_are_found_by_their_numbers_in_any_order(tmp_path: Path) -> None:
    some = [long_case(4, name=str(n), task=f"task {n}") for n in range(200)]
    write_plan(tmp_path, some, BOTH)

    found = read_plan(tmp_path).cases()

    assert len(found) == 200
    for number in (199, 0, 150, 31, 32, 64, 199, 1):
        assert found[number] == some[number]
    with pytest.raises(IndexError):
        found[200]


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"anchors": 0}, {"kinds": ()}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        dataclasses.replace(BOTH, **wrong)


def test_dollars_are_told_with_and_without_the_cache() -> None:
    summary = Summary(
        trajectories=1,
        passed_over=0,
        anchors=1,
        pairs=1,
        calls=2,
        shared=0,
        prompt_tokens=1_000_000,
        new_tokens=100_000,
        output_tokens=0,
    )
    cached = PriceSheet(name="mine", input=4.0, read=0.25, write=1.0, output=15.0)

    assert summary.dollars(cached) == pytest.approx((4.0, 0.1 * 4 + 0.9))
    assert summary.dollars(cached.no_cache()) == (4.0, 4.0)
    assert summary.hours(prompt_rate=100_000 / 3600, output_rate=1) == pytest.approx(1.0)
