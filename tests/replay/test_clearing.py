"""What providers offer themselves, beside AGORA: clearing of results, an agent's own summaries."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agora.core.prices import sheet_for
from agora.core.tokens import EstimatedTokens
from agora.logs import Recording, Tally, read_logs
from agora.replay.clearing import KEPT_USES, TRIGGER_TOKENS, Placeholders, cleared
from agora.replay.compacted import compacted
from agora.replay.measure import measure
from agora.replay.prompts import Writer
from agora.replay.report import Report
from agora.replay.run import Pricing, run
from agora.replay.simulate import Policy
from tests.logs.test_claude_code import Session
from tests.replay.recordings import recording, replay

SHEET = sheet_for("claude-opus-5")


def long(steps: int = 60) -> Recording:
    """Return a recording that ends far above the trigger."""
    return recording("long", steps, words=1_600, model="claude-opus-5")


def test_results_but_the_newest_three_are_cleared_above_the_trigger_and_not_below() -> None:
    measured = measure(long(), EstimatedTokens())
    writer = Writer(measured.trajectory, lambda _: Placeholders(), EstimatedTokens())

    prompts = list(cleared(measured, writer))

    sizes = [sum(segment.tokens for segment in prompt.segments) for prompt in prompts]
    edits = [at for at, prompt in enumerate(prompts) if prompt.edited]
    assert len(edits) > 1
    first = edits[0]
    assert all(not prompt.elided for prompt in prompts[:first])
    gone = [rest.number for rest in prompts[first].elided]
    assert gone == list(range(1, measured.moments[first].steps + 1 - KEPT_USES))
    assert max(sizes) <= TRIGGER_TOKENS
    # Its calls stay: only the results are gone.
    assert all(rest.in_place for rest in prompts[first].elided)


def test_what_was_cleared_stays_so_until_the_trigger_is_reached_again() -> None:
    measured = measure(long(), EstimatedTokens())
    writer = Writer(measured.trajectory, lambda _: Placeholders(), EstimatedTokens())

    prompts = list(cleared(measured, writer))

    for before, now in pairwise(prompts):
        assert {rest.number for rest in before.elided} <= {rest.number for rest in now.elided}
        assert now.edited or now.elided == before.elided


def test_the_row_has_its_cost_beside_what_is_still_in_the_prompt() -> None:
    replayed = replay(long(), SHEET)

    row, was = replayed.bills[Policy.CLEARING], replayed.bills[Policy.AS_IT_WAS]

    assert row.offered
    assert row.edits > 1
    assert row.tokens < was.tokens
    assert row.dollars != was.dollars
    assert row.acting == was.acting


def test_below_the_trigger_and_where_no_provider_has_it_calls_are_as_they_were() -> None:
    short = replay(recording("short", 10, model="claude-opus-5"), SHEET)
    other = replay(replace(long(), model="gpt-5"), sheet_for("gpt-5"))

    for replayed, offered in ((short, True), (other, False)):
        row = replayed.bills[Policy.CLEARING]
        assert row.calls == replayed.bills[Policy.AS_IT_WAS].calls
        assert row.offered is offered


def test_the_wider_share_has_every_action_below_the_line() -> None:
    report = Report(Pricing())
    for outcome in run([recording("one", 30)], Pricing()):
        report.add(outcome)

    for totals in report.value(Tally())["totals"]["own"].values():
        lost = totals["needing"] - totals["met"]
        assert totals["acting"] >= totals["needing"]
        assert totals["found_share"] == pytest.approx(1 - lost / totals["acting"])


def compacting(folder: Path) -> Path:
    """Write a session that is compacted, with the call that sums it up, and goes on."""
    session = Session().user("Repair the parser.")
    for n in range(4):
        session.step(f"early_{n}", f"def helper_{n}(): # see TICKET-40{n}\n" * 20, prompt=9_000)
    session.add("system", subtype="compact_boundary", compactMetadata={"preTokens": 9_321})
    session.parent = None
    session.user("The story so far: TICKET-401 is fixed.", isCompactSummary=True)
    session.step("late", "done", prompt=3_000)
    return session.write(folder)


def read_with(folder: Path, arguments: list[dict[str, Any]]) -> list[Recording]:
    """Return the recordings of such a session whose calls have these arguments, in order."""
    path = compacting(folder)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    calls = [
        block
        for line in lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
        if block["type"] == "tool_use"
    ]
    for block, given in zip(calls, arguments, strict=True):
        block["name"], block["input"] = "Read", given
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(read_logs([path], Tally()))


@pytest.mark.parametrize(
    ("last", "repeated", "reread", "needing", "met"),
    [
        ({"file_path": "src/a_0.py"}, 1, 1, 0, 0),
        ({"file_path": "src/a_1.py", "offset": 40}, 0, 1, 0, 0),
        ({"file_path": "src/new.py"}, 0, 0, 0, 0),
        ({"file_path": "docs/TICKET-401"}, 0, 0, 0, 0),
        ({"ticket": "TICKET-401"}, 0, 0, 1, 1),
        ({"ticket": "TICKET-402"}, 0, 0, 1, 0),
    ],
)
def test_what_is_done_again_after_a_compaction_is_counted(
    last: dict[str, Any], repeated: int, reread: int, needing: int, met: int, tmp_path: Path
) -> None:
    given = [{"file_path": f"src/a_{n}.py"} for n in range(4)]
    before, after = read_with(tmp_path, [*given, last])
    counter = EstimatedTokens()

    assert compacted(before, measure(before, counter).shown, counter) is None
    found = compacted(after, measure(after, counter).shown, counter)

    assert found is not None
    assert found.prompt_tokens == 9_321
    assert found.summary_tokens == counter.count("The story so far: TICKET-401 is fixed.")
    assert (found.steps, found.repeated, found.reread) == (1, repeated, reread)
    assert (found.needing, found.met) == (needing, met)


def test_the_call_that_sums_up_is_in_the_bill_and_its_output_apart(tmp_path: Path) -> None:
    compacting(tmp_path)
    agent = Session("s1")
    more = {"isSidechain": True, "agentId": "acompact-1"}
    agent.user("Your task is to create a detailed summary of the conversation so far.", **more)
    text = "<summary>TICKET-401 is fixed.</summary> " * 30
    agent.answer({"type": "text", "text": text}, prompt=9_400, read=9_000, **more)
    agent.write(tmp_path, "s1/subagents/agent-acompact-1.jsonl")

    report = Report(Pricing())
    for outcome in run(read_logs([tmp_path], Tally()), Pricing()):
        report.add(outcome)
    found = report.value(Tally())["compactions"]

    sheet = sheet_for("claude-opus-4-6")
    tokens = EstimatedTokens().count(text.strip()) or EstimatedTokens().count(text)
    assert (found["count"], found["calls"], found["least"], found["most"]) == (1, 1, 9_321, 9_321)
    assert found["output_tokens"] == pytest.approx(tokens, abs=2)
    assert found["output_cost"] == pytest.approx(sheet.dollars(output=found["output_tokens"]))
    assert found["input_cost"] == pytest.approx(
        sheet.for_ttl("1h").dollars(uncached=1, read=9_000, written=399), rel=0.02
    )
    assert found["input_cost"] < report.value(Tally())["totals"]["own"][Policy.AS_IT_WAS]["cost"]


def test_a_summary_without_a_boundary_is_one_too(tmp_path: Path) -> None:
    session = Session().user("Repair the parser.").step("early", "done")
    session.user("The story so far: done.", isCompactSummary=True).step("late", "done")

    first, second = read_logs([session.write(tmp_path)], Tally())

    assert first.compaction is None
    assert second.compaction is not None
    assert second.compaction.summary == "The story so far: done."
    assert second.compaction.prompt_tokens == 0
    assert second.compaction.messages == first.messages
