"""References at arrival, beside AGORA's edits: the same sizes as the compressor's own."""

from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from agora import Compressor
from agora.core.prices import sheet_for
from agora.core.tokens import EstimatedTokens
from agora.logs import Recording
from agora.replay.measure import measure
from agora.replay.simulate import Policy, replay_by
from tests.replay.recordings import recording, replay

SHEET = sheet_for("claude-sonnet-4-6")
VIEW = "\n".join(f"    row_{n} = measure(self.row_{n}, unit='metre')" for n in range(30))


def rereading(steps: int = 8) -> Recording:
    """Return a recording in which every second step reads the same lines."""
    made = recording("again", steps, words=60, model="claude-sonnet-4-6")
    messages: list[dict[str, Any]] = [dict(message) for message in made.messages]
    for message in [m for m in messages if m["role"] == "tool"][::2]:
        message["content"] = f"{message['content']}\n{VIEW}"
    return replace(made, messages=messages)


def test_every_call_is_as_long_as_the_compressor_would_have_sent_it() -> None:
    made = rereading()
    arriving = Compressor(repeats=True, schedule="never", counter=EstimatedTokens())
    moments = measure(made, EstimatedTokens()).moments

    row = replay(made, SHEET).bills[Policy.REFERENCES]

    assert row.edits == 0
    assert len(row.calls) == len(moments)
    for call, moment in zip(row.calls, moments, strict=True):
        sent = arriving.compress(made.messages[: 2 + 2 * moment.steps], model=made.model)
        assert call.uncached + call.read + call.written == sent.tokens_after


def test_the_page_says_of_every_policy_what_it_sends() -> None:
    page = resources.files("agora.replay").joinpath("page.html").read_text(encoding="utf-8")

    assert all(f'"{policy}": "' in page for policy in Policy)


def test_references_cost_less_and_take_nothing_away() -> None:
    bills = replay(rereading(), SHEET).bills
    row, was = bills[Policy.REFERENCES], bills[Policy.AS_IT_WAS]

    assert row.dollars < was.dollars
    assert (row.met, row.needing) == (was.met, was.needing)
    assert all(
        now.uncached + now.read + now.written <= before.uncached + before.read + before.written
        for now, before in zip(row.calls, was.calls, strict=True)
    )


@pytest.mark.parametrize("keep_tools", [(), ("read_file",)])
def test_without_repeats_or_with_their_tool_kept_calls_are_as_they_were(
    keep_tools: tuple[str, ...],
) -> None:
    made = rereading() if keep_tools else recording("once", 8, words=60)

    [replayed] = replay_by(made, (SHEET,), compressor=Compressor(keep_tools=keep_tools))

    assert replayed.bills[Policy.REFERENCES].calls == replayed.bills[Policy.AS_IT_WAS].calls
