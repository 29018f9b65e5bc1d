"""Thinking that is bound to the prefix: what is sent holds, and no more is lost than has to be."""

import copy
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from agora.sent_thinking import SentThinking, Verdict, mark
from hypothesis import given, settings
from hypothesis import strategies as st

import agora
from agora import bound_thinking
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import FallbackLevel, Reason, Thinking
from agora.core.prices import PriceSheet, sheet_for
from agora.core.rent_or_buy import (
    PATIENCE_CALLS,
    Change,
    Edit,
    RentOrBuy,
    Sizes,
)
from agora.errors import IllegalMessagesError
from agora.formats.thinking import thinks
from agora.testing import FailingScorer
from harness.histories import EveryNth
from harness.properties import bound
from harness.properties.bound import BoundViolationError, play

MODEL = "claude-fable-5-1"
EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "300"))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bound_thinking, "_sent", SentThinking())
    logging.getLogger("agora.compressor").disabled = True
    yield
    logging.getLogger("agora.compressor").disabled = False


def conversation(steps: int, *, signed: bool = True) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read every file."}]
    for n in range(1, steps + 1):
        thought = {"type": "thinking", "thinking": f"file {n}", "signature": f"signature {n:03d}"}
        use = {"type": "tool_use", "id": f"toolu_{n}", "name": "read", "input": {"path": f"{n}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"x{n} = 1\n" * 90}
        content = [thought, use] if signed else [use]
        messages += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result]},
        ]
    return messages


def blocks_in(messages: Any) -> list[str]:
    return [
        block["signature"]
        for message in messages
        if thinks(message)
        for block in message["content"]
        if block["type"] == "thinking"
    ]


def play_all(format: Any, outcome: Any, seeds: int) -> None:
    for seed in range(seeds):
        play(format, seed, outcome)


@pytest.mark.parametrize("format", ["anthropic", "bedrock"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(1_000_000, 9_000_000))
def test_nothing_is_refused_and_nothing_lost_whatever_happens_in_between(
    format: Any, seed: int
) -> None:
    play(format, seed)


def test_the_play_notices_thinking_that_an_edit_leaves_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "agora.compressor.remove_older", lambda rendered, *_: bound_thinking.Removed(rendered)
    )

    with pytest.raises(BoundViolationError):
        play_all("anthropic", "error", 200)


def test_the_play_notices_thinking_that_is_lost_without_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bound, "_EVENTS", ("restart",))
    monkeypatch.setattr("agora.compressor.edited_at", lambda request, *_: len(request.messages))

    with pytest.raises(BoundViolationError):
        play_all("bedrock", "drop", 400)


def test_an_edit_takes_out_older_thinking_and_leaves_what_came_after_it() -> None:
    compressor = Compressor(schedule=EveryNth(6), budget=Budget(limit=500), min_tokens=0)
    messages = conversation(8)

    compression = compressor.compress(messages, model=MODEL)

    assert compression.changed
    assert compression.last_edit == 6
    assert blocks_in(compression.messages) == ["signature 007", "signature 008"]
    assert compression.thinking.blocks == 6
    assert compression.thinking.tokens > 0
    assert "6 thinking blocks taken out" in compression.summary()
    again = Compressor(schedule=EveryNth(6), budget=Budget(limit=500), min_tokens=0)
    assert again.compress(copy.deepcopy(messages), model=MODEL).messages == compression.messages


def test_a_step_that_lost_its_thinking_may_be_removed_and_not_only_masked() -> None:
    compressor = Compressor(edits="every_call", budget=Budget(limit=0), min_tokens=0)
    messages = conversation(12)

    bound_to_prefix = compressor.compress(messages, model=MODEL)
    manual = compressor.compress(messages, model="claude-sonnet-4-5", thinking=True)

    assert len(bound_to_prefix.messages) < len(manual.messages)
    assert bound_to_prefix.tokens_after < manual.tokens_after
    assert len(blocks_in(manual.messages)) == 12
    assert not agora.validate(
        bound_to_prefix.messages,
        format="anthropic",
        model=MODEL,
        before=messages,
        edited_at=len(messages),
    )


def test_where_nothing_is_edited_the_callers_own_object_comes_back() -> None:
    messages = conversation(8)

    compression = Compressor().compress(messages, model=MODEL)

    assert compression.messages is messages
    assert compression.thinking == Thinking()


def test_the_caller_may_say_that_a_model_does_or_does_not_bind() -> None:
    every = Compressor(edits="every_call", budget=Budget(limit=0), min_tokens=0)
    messages = conversation(8)

    free = replace(every, binds_thinking=False).compress(messages, model=MODEL)
    held = replace(every, binds_thinking=True).compress(messages, model="claude-opus-4-8")

    assert len(blocks_in(free.messages)) == 8
    assert blocks_in(held.messages) == []


def test_a_scorer_that_fails_once_costs_the_thinking_made_until_then_and_no_more() -> None:
    works = Compressor(schedule=EveryNth(6), budget=Budget(limit=900), min_tokens=0)
    fails = replace(works, scorer=FailingScorer(RuntimeError("no weights")))

    first = works.compress(conversation(7), model=MODEL)
    by_rule = fails.compress(conversation(8), model=MODEL)
    again = works.compress(conversation(9), model=MODEL)
    later = works.compress(conversation(10), model=MODEL)

    assert blocks_in(first.messages) == ["signature 007"]
    assert by_rule.fallback_level is FallbackLevel.PARTIAL
    assert blocks_in(by_rule.messages) == []
    assert blocks_in(again.messages) == []
    assert blocks_in(later.messages) == ["signature 010"]


def test_a_failure_hands_on_everything_but_thinking_that_could_be_stale() -> None:
    class RuleViolation:
        def count(self, text: str) -> int:
            raise RuntimeError(text[:3])

    messages = conversation(8)

    compression = Compressor(counter=RuleViolation()).compress(messages, model=MODEL)

    assert compression.reason is Reason.THINKING_REMOVED
    assert compression.detail.startswith("failed: RuntimeError")
    assert blocks_in(compression.messages) == []
    assert len(compression.messages) == len(messages)
    assert "8 thinking blocks taken out, nothing elided" in compression.summary()
    strict = Compressor(counter=RuleViolation(), strict=True)
    with pytest.raises(RuntimeError):
        strict.compress(messages, model=MODEL)


def test_failing_to_take_thinking_out_hands_the_messages_on_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bound_thinking, "signatures", lambda _: 1 / 0)
    messages = conversation(8)

    compression = Compressor().compress(messages, model=MODEL)

    assert compression.messages is messages
    assert compression.reason is Reason.FAILED


def test_an_illegal_history_is_handed_on_as_it_is() -> None:
    messages = conversation(8)[1:]

    assert Compressor().compress(messages, model=MODEL).messages is messages
    with pytest.raises(IllegalMessagesError):
        Compressor(strict=True).compress(messages, model=MODEL)


def test_shadow_mode_switched_on_gives_up_what_was_thought_under_the_edit() -> None:
    on = Compressor(schedule=EveryNth(6), budget=Budget(limit=500), min_tokens=0)
    shadow = replace(on, shadow=True)

    on.compress(conversation(7), model=MODEL)
    switched = shadow.compress(conversation(8), model=MODEL)
    later = shadow.compress(conversation(9), model=MODEL)

    assert switched.reason is Reason.THINKING_REMOVED
    assert blocks_in(switched.messages) == []
    assert blocks_in(later.messages) == ["signature 009"]


def test_a_refusal_gives_up_all_thinking_until_then() -> None:
    compressor = Compressor(schedule=EveryNth(6), budget=Budget(limit=500), min_tokens=0)
    messages = conversation(8)
    sent = compressor.compress(messages, model=MODEL)
    assert blocks_in(sent.messages) == ["signature 007", "signature 008"]

    bound_thinking.refused_thinking(messages, sent)

    assert blocks_in(compressor.compress(messages, model=MODEL).messages) == []
    later = compressor.compress(conversation(9), model=MODEL)
    assert blocks_in(later.messages) == ["signature 009"]
    bound_thinking.refused_thinking(conversation(3, signed=False), sent)


def test_an_edit_that_is_undone_takes_out_what_was_thought_until_then() -> None:
    class Undoes:
        def edit(self, sizes: Sizes) -> Edit:
            history = (Change(3, 3, 400), Change(5, 0, 0))
            return Edit(0, 0, history=tuple(c for c in history if c.call <= len(sizes.steps)))

    compression = Compressor(schedule=Undoes()).compress(conversation(8), model=MODEL)

    assert compression.reason is Reason.THINKING_REMOVED
    assert compression.detail.startswith("not_worth_it_yet")
    assert blocks_in(compression.messages) == ["signature 006", "signature 007", "signature 008"]


def test_what_is_remembered_is_bounded_and_nobody_is_told_of_anothers() -> None:
    sent = SentThinking(most=2)
    one, two = mark("one"), mark("two")

    assert sent.look([one], "edit", who="a") == Verdict()
    assert sent.look([one], "other", who="b") == Verdict()
    assert sent.look([two, one], "other", who="a") == Verdict(two)
    assert sent.look([], "edit") == Verdict()
    assert sent.look([mark("three")], None, unknown="give_up") == Verdict(mark("three"))
    assert sent.look([mark("four")], None, unknown="ask") == Verdict(0, asks=True)
    assert sent.look([mark("five"), mark("four")], None) == Verdict(0, asks=True)
    assert sent.look([two], "new", who="a") == Verdict()
    sent.refused([], None)


# --- the price of lost reasoning


SHEET = PriceSheet(name="s", input=1.0, read=0.1, write=1.25, output=50.0)


def sizes(steps: int, *, thinking: int, spoke: tuple[int, ...] = ()) -> Sizes:
    return Sizes(
        preamble=2_000,
        steps=(1_000,) * steps,
        said=(0,) * steps,
        residues=(0,) * steps,
        asked=tuple(int(n in spoke) for n in range(1, steps + 1)),
        thinking=(thinking,) * steps,
    )


def first_edit(given: Sizes) -> int:
    history = RentOrBuy(SHEET, ceiling=1.02).edit(given).history
    assert history
    return history[0].call


def test_an_edit_that_is_due_waits_for_the_user_but_not_for_long() -> None:
    due = first_edit(sizes(60, thinking=0))

    assert first_edit(sizes(60, thinking=500)) == due + PATIENCE_CALLS
    assert first_edit(sizes(60, thinking=500, spoke=(due + 1,))) == due + 2
    assert first_edit(sizes(60, thinking=500, spoke=(due - 1,))) == due


def test_an_edit_does_not_wait_where_waiting_costs_more_than_the_reasoning_is_worth() -> None:
    due = first_edit(sizes(60, thinking=0))

    assert first_edit(sizes(60, thinking=1)) == due


def test_waiting_never_raises_the_bill_above_the_ceiling() -> None:
    patient = RentOrBuy(sheet_for(MODEL)).edit(sizes(120, thinking=300))
    prompt = RentOrBuy(sheet_for(MODEL)).edit(sizes(120, thinking=0))

    assert patient.history
    assert prompt.history
    assert patient.history[0].call >= prompt.history[0].call


def test_a_sheet_without_a_price_of_input_has_no_price_of_reasoning() -> None:
    free = replace(SHEET, input=0.0)

    assert RentOrBuy(free).edit(sizes(60, thinking=500)).history
