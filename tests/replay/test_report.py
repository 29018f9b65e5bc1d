import json
from dataclasses import replace
from typing import Any

import pytest

from agora import sheet_for
from agora.core import shipped_sheets
from agora.logs import Recording, Tally, Usage
from agora.replay import Policy, Pricing, Report, run

# Private: sums and units of the report, by hand.
from agora.replay import report as module
from agora.replay.report import Comparison, Reasons, unit_of
from tests.replay.recordings import recording


def reported(recordings: list[Recording], pricing: Pricing) -> dict[str, Any]:
    report = Report(pricing)
    for outcome in run(recordings, pricing):
        report.add(outcome)
    value: dict[str, Any] = json.loads(json.dumps(report.value(Tally(), ["log.jsonl"])))
    return value


def test_totals_are_the_sums_of_the_rows_for_every_sheet_and_policy() -> None:
    pricing = Pricing(others=(sheet_for("claude-sonnet-5"), shipped_sheets()["self-hosted"]))
    value = reported([recording(f"r{n}", 10 * n) for n in range(4)], pricing)

    assert value["trajectories"] == len(value["rows"]) == 4
    assert value["steps"] == 60
    assert value["calls"] == 61, "without a step there is still one call"
    for place, policy in enumerate(value["policies"]):
        totals = value["totals"]["own"][policy]
        assert totals["cost"] == pytest.approx(sum(row["cost"][place] for row in value["rows"]))
        assert totals["edits"] == sum(row["edits"][place] for row in value["rows"])
    for by_policy in value["totals"].values():
        for totals in by_policy.values():
            kinds = totals["uncached"], totals["read"], totals["written"]
            assert totals["tokens"] == sum(kinds)


def test_costs_are_those_the_cache_model_billed() -> None:
    one = recording("one", 40)
    value = reported([one], Pricing())
    [outcome] = run([one], Pricing())

    bills = outcome.by_sheet["own"].bills
    for place, policy in enumerate(Policy):
        assert value["rows"][0]["cost"][place] == pytest.approx(bills[policy].dollars)
        columns = value["rows"][0]["detail"]["calls"][place]
        assert sum(columns[0]) + sum(columns[1]) + sum(columns[2]) == bills[policy].tokens
        assert len(columns[3]) == bills[policy].edits


def test_own_hardware_is_counted_in_seconds() -> None:
    sheet = shipped_sheets()["self-hosted"]
    value = reported([recording("one", 20)], Pricing(fixed=sheet))

    assert unit_of(sheet) == value["units"]["self-hosted"] == "seconds"
    totals = value["totals"]["self-hosted"]
    assert 0 < totals[Policy.AGORA]["cost"] < totals[Policy.AS_IT_WAS]["cost"]
    own = reported([recording("one", 2, model="self-hosted")], Pricing())
    assert own["units"] == {"own": "seconds"}


def test_what_fails_and_what_a_provider_would_refuse_are_counted_with_the_reason() -> None:
    orphan = [{"role": "user", "content": "hi"}, {"role": "tool", "tool_call_id": "x"}]
    refused = Recording(id="refused", format="openai", messages=orphan)
    strange = Recording(id="strange", format="no such format", messages=[])

    value = reported([refused, strange, recording("good", 1)], Pricing())

    assert value["failed"]["count"] + value["left_alone"]["count"] == 2
    reasons = value["failed"]["reasons"] + value["left_alone"]["reasons"]
    assert {example for reason in reasons for example in reason["examples"]} == {
        "refused",
        "strange",
    }


def test_details_are_kept_of_the_dearest_only_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_DETAILS", 2)
    monkeypatch.setattr(module, "MOST_ROWS", 4)

    value = reported([recording(f"r{n}", n) for n in (3, 9, 1, 7, 5, 2)], Pricing())

    assert [row["id"] for row in value["rows"]] == ["r9", "r7", "r5", "r3"]
    assert ["detail" in row for row in value["rows"]] == [True, True, False, False]
    assert value["trajectories"] == 6


def test_a_report_of_nothing_is_a_report() -> None:
    value = reported([], Pricing())

    assert value["trajectories"] == 0
    assert value["rows"] == []
    assert value["totals"]["own"][Policy.AGORA]["append_only_share"] == 1


def test_reasons_stay_few_however_many_there_are() -> None:
    reasons = Reasons()
    for n in range(1_000):
        reasons.add(f"reason {n}", "here")

    value = reasons.value()
    assert value["count"] == 1_000
    assert len(value["reasons"]) <= 51
    assert value["reasons"][0] == {
        "reason": "something else",
        "count": 950,
        "examples": ["here"] * 5,
    }


def test_a_comparison_knows_cheaper_same_and_dearer() -> None:
    compared = Comparison()
    for was, now in ((2.0, 1.0), (1.0, 1.0), (1.0, 1.5), (0.0, 0.0)):
        compared.add(was, now)

    assert (compared.cheaper, compared.same, compared.costlier) == (1, 2, 1)
    assert compared.worst == 1.5


def test_what_was_written_for_an_hour_is_billed_as_that_and_tiers_by_the_size_of_each_call() -> (
    None
):
    one = recording("one", 20, model="claude-haiku-5-5")
    prompts = [60_000] * 10 + [160_000] * 10
    usage = tuple(Usage(0, size - 1_000, 1_000, written_1h=1_000) for size in prompts)
    value = reported([replace(one, usage=usage)], Pricing())

    each = [((size - 1_000) * 0.1 + 1_000 * 2.0) * 0.1 / 1e6 for size in prompts]
    assert value["billed"]["cost"] == pytest.approx(sum(each[:10]) + 5 * sum(each[10:]))
    [outcome] = run([replace(one, usage=usage)], Pricing())
    bills = outcome.by_sheet["own"].bills
    for place, policy in enumerate(Policy):
        assert value["rows"][0]["cost"][place] == pytest.approx(bills[policy].dollars)
    assert value["sheets"]["claude-haiku-5-5 (1h)"]["tiers"] == [
        {"above": 100_000, "input": 5.0, "output": 5.0}
    ]
