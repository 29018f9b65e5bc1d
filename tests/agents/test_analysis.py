import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.compressor import Compressor
from agora.core.prices import sheet_for
from harness.agents.analysis import (
    Breaks,
    Pair,
    analyse,
    bill,
    breaks,
    dollars,
    offline,
    pair,
)
from harness.agents.excerpt import excerpt
from harness.agents.record import Request
from harness.agents.wire import Block, Prompt

MODEL = "gpt-5"


def prompt(*texts: str) -> Prompt:
    return tuple(map(Block, texts))


def growing(calls: int, *, head: Sequence[str] = ("task",)) -> list[Prompt]:
    return [prompt(*head, *(f"step {n}" for n in range(size))) for size in range(calls)]


def request(
    number: int, messages: list[Any], *, path: str = "/v1/chat/completions", **known: Any
) -> Request:
    body = json.dumps({"model": MODEL, "messages": messages}).encode()
    return Request(
        number=number, at=float(number), method="POST", path=path, headers=[], body=body, **known
    )


def said(text: str, role: str = "user") -> dict[str, str]:
    return {"role": role, "content": text}


def test_a_prompt_that_only_grows_never_breaks() -> None:
    sent = growing(6)

    assert breaks(sent, sent, sent) == Breaks()


def edited(sent: list[Prompt], epoch: int) -> list[Prompt]:
    """Prompts whose first two steps are elided from the call `epoch` on."""
    return [
        one if n < epoch else prompt("task", "marker", *(b.text for b in one[3:]))
        for n, one in enumerate(sent)
    ]


def test_an_edit_at_its_epoch_is_wanted() -> None:
    sent = growing(8)
    wanted = edited(sent, 4)

    assert breaks(sent, wanted, wanted) == Breaks(wanted=1)


@given(st.integers(4, 7))
def test_an_edit_after_its_epoch_is_wanted_and_late(call: int) -> None:
    sent = growing(8)

    found = breaks(sent, edited(sent, call), edited(sent, 4))

    assert found == Breaks(wanted=1, late=call - 4)


def test_an_epoch_that_never_reaches_the_provider_is_counted() -> None:
    sent = growing(8)

    assert breaks(sent, sent, edited(sent, 4)) == Breaks(never=1)


def test_a_whole_prompt_between_edited_ones_breaks_twice() -> None:
    sent = growing(8)
    wanted = edited(sent, 4)
    arrived = [*wanted[:6], sent[6], wanted[7]]

    assert breaks(sent, arrived, wanted) == Breaks(wanted=1, unwanted=(7, 8))


def test_an_edit_that_the_library_would_not_make_is_unwanted() -> None:
    sent = growing(8)

    found = breaks(sent, edited(sent, 5), sent)

    assert found == Breaks(unwanted=(6,))


def test_another_edit_than_the_librarys_is_unwanted() -> None:
    sent = growing(8)
    wanted = edited(sent, 4)
    other = [*sent[:4], *(prompt("task", "other", *(b.text for b in one[3:])) for one in sent[4:])]

    assert breaks(sent, other, wanted) == Breaks(unwanted=(5,), never=1)


def test_conversations_side_by_side_do_not_break_each_other() -> None:
    one, other = growing(5), growing(5, head=("another task",))
    sent = [call for pair_ in zip(one, other, strict=True) for call in pair_]

    assert breaks(sent, sent, sent) == Breaks()


def test_an_agent_that_rewrites_its_history_is_not_held_against_the_gateway() -> None:
    sent = growing(8)
    rewritten = prompt("new task", *(block.text for block in sent[-1][1:]))

    assert breaks([*sent, rewritten], [*sent, rewritten], [*sent, rewritten]).by_agent == 1


def test_requests_are_paired_by_how_they_end() -> None:
    title, work = [said("a title, please")], [said("task"), said("step")]
    sent = [request(1, title), request(2, work)]
    arrived = [request(3, [said("task, and a marker"), said("step")]), request(4, title)]

    first, second = pair(sent, arrived)

    assert first.arrived == (arrived[1],)
    assert second.arrived == (arrived[0],)
    assert second.edited
    assert not first.edited


def test_a_request_that_was_refused_may_come_again() -> None:
    sent = [request(1, [said("task"), said("step")])]
    arrived = [
        request(2, [said("marker"), said("step")], verdict="no"),
        request(3, [said("task"), said("step")]),
    ]

    (exchange,) = pair(sent, arrived)

    assert exchange.arrived == tuple(arrived)
    assert not exchange.edited


def test_a_refused_edit_is_illegal_and_a_refused_request_of_the_agent_is_not_our_fault() -> None:
    whole, cut = [said("task"), said("step")], [said("marker"), said("step")]
    refused_edit = Pair(request(1, whole), (request(2, cut, verdict="no"),))
    own = Pair(request(1, whole), (request(2, whole, verdict="no"),))

    assert not analyse([refused_edit], [refused_edit.sent.prompt], 0.0).legal
    assert analyse([own], [own.sent.prompt], 0.0).legal
    assert analyse([own], [own.sent.prompt], 0.0).refused == {"no": 1}


def test_an_edit_that_breaks_a_rule_of_our_own_validator_is_illegal() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "text"}
    sent = request(1, [said("task"), asked, answer])
    arrived = request(2, [said("task"), answer])

    row = analyse([Pair(sent, (arrived,))], [sent.prompt], 0.0)

    assert not row.legal
    assert sum(row.broken_by_edit.values()) >= 1


def test_thinking_that_an_edit_takes_out_breaks_no_rule_of_a_model_that_binds_it() -> None:
    def sent(number: int, model: str, *blocks: dict[str, Any]) -> Request:
        use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "text"}
        messages = [
            said("task"),
            {"role": "assistant", "content": [*blocks, use]},
            {"role": "user", "content": [result]},
        ]
        body = {"model": model, "messages": messages, "thinking": {"type": "adaptive"}}
        asked = request(number, messages, path="/v1/messages")
        return replace(asked, body=json.dumps(body).encode())

    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    rows = {
        model: analyse([Pair(own := sent(1, model, thought), (sent(2, model),))], [own.prompt], 0.0)
        for model in ("claude-opus-5-5", "claude-sonnet-4-5")
    }

    assert rows["claude-opus-5-5"].broken_by_edit == {}
    assert rows["claude-sonnet-4-5"].broken_by_edit == {"A15": 1}


@pytest.mark.parametrize(
    "marker",
    [
        "[step 1: result elided by the context compressor; it signs all it writes #a7f3] id=7",
        "[steps 1-3 elided #a7f3]\n1 read path=a.py",
    ],
)
def test_the_page_shows_the_note_or_marker_of_an_edited_request(marker: str) -> None:
    sent = request(1, [said("task"), said("a long text " * 90)])
    arrived = request(2, [said("task"), said(marker)])

    assert excerpt([Pair(sent, (arrived,))]).partition("\n")[2] == marker


def long_session(calls: int) -> list[list[Any]]:
    steps = [said(f"{n} " * 4_000, "assistant" if n % 2 else "user") for n in range(2 * calls)]
    return [steps[: 2 * n + 1] for n in range(calls)]


def test_a_session_that_is_passed_through_saves_nothing_and_claims_nothing() -> None:
    sent = [request(n, messages) for n, messages in enumerate(long_session(5))]
    calls = [(one, one.prompt) for one in sent]
    exchanges = [
        Pair(one, (replace(one, usage=asdict(usage)),))
        for one, usage in zip(sent, bill(calls), strict=True)
    ]

    row = analyse(exchanges, [one.prompt for one in sent], 0.0)

    assert row.dollars_direct > 0
    assert row.saved == pytest.approx(0)
    assert row.saved_offline == pytest.approx(0)
    assert row.claimed_off_by is None
    assert row.problems() == ()


def test_a_claim_is_compared_with_the_true_saving() -> None:
    sent = [request(n, messages) for n, messages in enumerate(long_session(5))]
    usage = {"uncached": 1_000, "read": 0, "written": 0}
    arrived = [
        request(one.number, [said("short"), json.loads(one.body)["messages"][-1]], usage=usage)
        for one in sent
    ]
    exchanges = [Pair(a, (b,)) for a, b in zip(sent, arrived, strict=True)]
    wanted = [one.prompt for one in arrived]
    true = dollars([(one, one.prompt) for one in sent]) - 5 * 1_000 * sheet_for(MODEL).input / 1e6

    exact, double = analyse(exchanges, wanted, true), analyse(exchanges, wanted, 2 * true)

    assert exact.claimed_off_by == pytest.approx(0)
    assert double.claimed_off_by == pytest.approx(100)
    assert any("claimed" in problem for problem in double.problems())


def test_a_call_that_never_arrives_is_lost() -> None:
    sent = request(1, [said("task")])

    row = analyse([Pair(sent)], [sent.prompt], 0.0)

    assert row.lost == 1
    assert "1 calls lost" in row.problems()


def test_what_the_gateway_says_of_a_request_it_left_alone_is_counted() -> None:
    missed = [("x-agora-untouched", "deadline")]
    sent = request(1, [said("task")], answer_headers=missed)

    row = analyse([Pair(sent, (sent,))], [sent.prompt], 0.0)

    assert row.left_alone == {"deadline": 1}
    assert row.missed == 1


def test_offline_is_what_the_library_makes_of_the_recorded_requests() -> None:
    messages: list[Any] = [said("Read all files.")]
    for n in range(12):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "r", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"line {n}\n" * 900})
    sent = request(1, messages)

    (every_call,) = offline([Pair(sent)], Compressor(schedule="every_call", min_tokens=0))
    (never,) = offline([Pair(sent)], Compressor(schedule="never"))

    assert len("".join(b.text for b in every_call)) < len("".join(b.text for b in sent.prompt)) / 2
    assert never == sent.prompt


def test_an_agents_own_summary_is_wanted_whole() -> None:
    messages: list[Any] = [said("Read all files.")]
    for n in range(12):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "r", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"{n} " * 4_000})
    own = [("x-agora-untouched", "own_summary")]
    summary = Pair(request(1, messages, answer_headers=own))
    usual = Pair(request(1, messages))
    every_call = Compressor(schedule="every_call")

    assert offline([summary], every_call) == [summary.sent.prompt]
    assert offline([usual], every_call) != [usual.sent.prompt]
