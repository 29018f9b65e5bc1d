import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agora import Budget, Compressor, EstimatedTokens, sheet_for
from agora.logs import Recording, Tally, Usage, read_logs

# Private: sizes of a recording, before a policy is played.
from agora.logs.moments import prompt_tokens
from agora.logs.shortened import shows_markers
from agora.replay import Policy, Pricing, Report, replay_by, run
from agora.replay.measure import BY_MARKERS, BY_USAGE, measure
from tests.replay.recordings import messages, recording, replay

SHEET = sheet_for("claude-opus-4-6")


def logged(steps: int, usage: list[Usage], **more: Any) -> Recording:
    """Return a recording of a log without system text, with what the provider reported."""
    one = recording("logged", steps, words=40, model="claude-opus-4-6")
    shown = one.messages[1:]
    fields = {"lacks": "system text and tools", "usage": tuple(usage), **more}
    return replace(one, messages=shown, **fields)


def usage_of(steps: int, unseen: int, scale: float) -> list[Usage]:
    """Return the usage of a provider that counts so, whose cache always has the call before."""
    was = measure(logged(steps, []), EstimatedTokens())
    sizes = [unseen + round(scale * size) for size in prompt_tokens(was.shown, was.moments)]
    return [Usage(0, before, now - before) for before, now in zip([0, *sizes], sizes, strict=False)]


def test_what_the_log_lacks_is_a_prefix_of_every_call_under_every_policy() -> None:
    usage = usage_of(30, 24_000, 1.2)

    replayed = replay(logged(30, usage), SHEET)

    assert replayed.unseen_tokens == pytest.approx(24_000, abs=30)
    assert replayed.tokens_scale == pytest.approx(1.2, abs=0.01)
    assert replayed.lacks == "system text and tools"
    for bill in replayed.bills.values():
        assert all(c.uncached + c.read + c.written >= 23_900 for c in bill.calls)
    was = replayed.bills[Policy.AS_IT_WAS]
    assert was.tokens == pytest.approx(sum(one.prompt for one in usage), rel=0.002)
    assert was.dollars == pytest.approx(
        sum(SHEET.dollars(read=one.read, written=one.written) for one in usage), rel=0.01
    )


def test_what_other_sessions_left_in_the_cache_is_read_by_the_first_call() -> None:
    cold = usage_of(10, 24_000, 1.2)
    first = cold[0]
    warm = [Usage(0, 17_000, first.prompt - 17_000), *cold[1:]]

    [before, after] = [
        replay(logged(10, usage), SHEET).bills[Policy.AS_IT_WAS].calls for usage in (cold, warm)
    ]

    assert before[0].read == 0
    assert after[0].read == pytest.approx(17_000, abs=2)
    assert [call.read for call in after[1:]] == [call.read for call in before[1:]]


def test_a_cache_that_was_lost_in_time_is_lost_under_every_policy() -> None:
    usage = usage_of(12, 24_000, 1.2)
    lost = usage[6]
    usage[6] = Usage(0, 20_000, lost.prompt - 20_000)
    times = tuple(10.0 * n for n in range(12))

    replayed = replay(logged(12, usage, at_seconds=times), SHEET)

    assert replayed.lost == 1
    for bill in replayed.bills.values():
        assert bill.calls[6].read == pytest.approx(20_000, abs=2)
    later = replayed.bills[Policy.AS_IT_WAS].calls[7]
    assert later.read == pytest.approx(lost.prompt, rel=0.01)


def test_what_is_kept_for_an_hour_costs_more() -> None:
    usage = [replace(one, written_1h=one.written) for one in usage_of(6, 24_000, 1.2)]

    [hour] = replay_by(logged(6, usage), [SHEET])

    assert hour.bills[Policy.AS_IT_WAS].dollars == pytest.approx(
        sum(SHEET.for_ttl("1h").dollars(read=one.read, written=one.written) for one in usage),
        rel=0.01,
    )


@pytest.mark.parametrize("pause", [10.0, 2_000.0])
@pytest.mark.parametrize("is_gone", [True, False])
def test_usage_says_whether_the_cache_outlived_a_pause_and_not_the_clock(
    pause: float, is_gone: bool
) -> None:
    usage = usage_of(6, 24_000, 1.2)
    if is_gone:
        usage[2] = Usage(0, 0, usage[2].prompt)
    times = (0.0, 10.0, 10.0 + pause, 20.0 + pause, 30.0 + pause, 40.0 + pause)

    [replayed] = replay_by(logged(6, usage, at_seconds=times), [SHEET])

    assert (replayed.bills[Policy.AS_IT_WAS].calls[2].read == 0) == is_gone


def test_a_log_that_shows_everything_is_only_scaled() -> None:
    usage = usage_of(10, 24_000, 1.2)

    replayed = replay(logged(10, usage, lacks=""), SHEET)

    assert (replayed.unseen_tokens, replayed.lacks) == (0, "")
    assert replayed.bills[Policy.AS_IT_WAS].tokens == pytest.approx(
        sum(one.prompt for one in usage), rel=0.001
    )


def test_a_session_whose_prompts_were_shortened_on_their_way_is_billed_as_it_was() -> None:
    usage = usage_of(30, 8_000, 1.2)
    usage[20:] = [Usage(one.uncached // 3, one.read // 3, one.written // 3) for one in usage[20:]]

    replayed = replay(logged(30, usage), SHEET)

    assert replayed.shortened == BY_USAGE
    assert not replayed.elided
    for bill in replayed.bills.values():
        assert [c.uncached + c.read + c.written for c in bill.calls] == [u.prompt for u in usage]
    report = Report(Pricing())
    for outcome in run([logged(30, usage)], Pricing()):
        report.add(outcome)
    value = report.value(Tally())
    assert value["shortened"]["count"] == 1
    assert value["billed"]["calls"] == 0
    assert value["compared"]["same"] == 1


def shortened_call() -> list[dict[str, Any]]:
    """Return AGORA's messages in place of forty steps."""
    compressor = Compressor(budget=Budget(limit=6_000), edits="every_call")
    return list(compressor.compress(messages(40)).messages)


def test_a_recorder_s_log_shows_what_agora_had_left_out(tmp_path: Path) -> None:
    sent = shortened_call()
    assert shows_markers(sent)
    assert not shows_markers(messages(40))
    more = messages(42)[len(messages(40)) :]
    calls = [messages(39), sent, [*sent, *more[:2]], [*sent, *more]]
    log = tmp_path / "calls.jsonl"
    log.write_text("".join(json.dumps({"model": "gpt-5", "messages": one}) + "\n" for one in calls))

    before, after = read_logs([log], Tally())

    assert measure(before, EstimatedTokens()).shortened == ""
    measured = measure(after, EstimatedTokens())
    assert measured.shortened == BY_MARKERS
    # Two further calls and not forty: those before were made, and billed, as they are in `before`.
    assert len(measured.moments) == 3
    replayed = replay(after, sheet_for("gpt-5"))
    assert replayed.bills[Policy.AGORA].calls == replayed.bills[Policy.AS_IT_WAS].calls


def test_a_text_that_quotes_a_marker_is_none() -> None:
    quoted = "The docs say:\n[steps 3-4 removed #a7f3]\n3 ls -> ok\nThat is all."

    assert not shows_markers([{"role": "user", "content": quoted}])
    assert shows_markers({"content": quoted.removesuffix("\nThat is all.")})
    assert not shows_markers([{"role": "user", "content": "see\n[step by step]"}])
