from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from lab.harness.labelling import toy_plan
from lab.tests.label.making import cases, plain_case

from agora_lab.label.cases import Case
from agora_lab.label.plan import PlanError, PlanSettings, Shard, chosen_pairs, read_plan, write_plan

PAPER = PlanSettings(backbone="openai:m")


def shard_of(steps: int) -> Shard:
    case = plain_case([f"go {n}" for n in range(steps)], [f"room {n}" for n in range(steps)])
    return Shard(case, chosen_pairs(case, PAPER))


def test_every_pair_has_its_own_samples_of_both_prompts_as_in_the_paper() -> None:
    shard = shard_of(6)

    asks = list(shard.asks(PAPER))

    assert shard.pairs == ((4, 1), (5, 1), (5, 2), (6, 1), (6, 2), (6, 3))
    assert len(asks) == 2 * len(shard.pairs)
    assert len({ask.seed for ask in asks}) == len(asks)


def test_each_prompt_without_a_step_extends_the_one_before_or_begins_with_an_earlier_step() -> None:
    without = [ask for ask in shard_of(7).asks(PAPER) if not ask.whole]

    for one, other in pairwise(without):
        assert (other.candidate, -other.anchor) < (one.candidate, -one.anchor)
        if one.candidate == other.candidate:
            assert other.messages[: len(one.messages)] == one.messages


@pytest.mark.parametrize(
    "change",
    [
        {"backbone": "openai:other"},
        {"revision": "2"},
        {"temperature": 0.5},
        {"samples": 4},
        {"max_tokens": 9},
        {"stop": ("\n",)},
        {"seed": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_an_answer_changes_its_key(change: dict[str, object]) -> None:
    shard = shard_of(4)
    keys = {ask.key for ask in shard.asks(PAPER)}

    changed = PlanSettings(**{"backbone": "openai:m", **change})  # type: ignore[arg-type]

    assert keys.isdisjoint(ask.key for ask in shard.asks(changed))


def test_limits_of_a_plan_change_no_key() -> None:
    limited = PlanSettings(backbone="openai:m", pairs=1, longest=100)
    shard = shard_of(5)

    assert [ask.key for ask in shard.asks(limited)] == [ask.key for ask in shard.asks(PAPER)]


@settings(max_examples=30, deadline=None)
@given(cases())
def test_a_plan_reads_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    sure = plain_case(["go"] * 5, ["room"] * 5)

    written = write_plan(folder, [case, sure, sure], PAPER)

    plan = read_plan(folder)
    assert plan == written
    shards = list(plan.shards())
    assert shards[-1].case == sure
    assert len(shards) + plan.summary.passed_over == 3
    assert sum(len(shard.pairs) for shard in shards) == plan.summary.pairs
    assert sum(len(list(shard.asks(PAPER))) for shard in shards) == plan.summary.asks


def test_trajectories_without_a_past_make_no_plan(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="would be empty"):
        write_plan(tmp_path, [plain_case(["go"] * 3, ["room"] * 3)], PAPER)


def test_an_estimate_counts_what_a_cache_spares(tmp_path: Path) -> None:
    summary = toy_plan(tmp_path / "plan", 90).summary

    assert (summary.trajectories, summary.pairs, summary.asks) == (2, 90, 180)
    assert summary.new_tokens < summary.prompt_tokens / 5


def test_a_plan_keeps_to_its_limits(tmp_path: Path) -> None:
    every = toy_plan(tmp_path / "all", 45).summary

    assert 0 < toy_plan(tmp_path / "short", 45, longest=150).summary.pairs < every.pairs
    assert toy_plan(tmp_path / "few", 45, pairs=7).summary.pairs == 7 * every.trajectories


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"samples": 5}, "even"),
        ({"samples": 0}, "even"),
        ({"pairs": 0}, "pairs must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(PlanError, match=problem):
        PlanSettings(**{"backbone": "openai:m", **settings})  # type: ignore[arg-type]


def test_a_plan_is_not_written_over_and_one_of_another_schema_not_read(tmp_path: Path) -> None:
    toy_plan(tmp_path, 45)

    with pytest.raises(PlanError, match="already exists"):
        toy_plan(tmp_path, 45)
    file = tmp_path / "plan.json"
    file.write_text(file.read_text().replace('"schema": 3', '"schema": 1'))
    with pytest.raises(PlanError, match="make it again"):
        read_plan(tmp_path)
    with pytest.raises(PlanError, match="no readable"):
        read_plan(tmp_path / "nowhere")
