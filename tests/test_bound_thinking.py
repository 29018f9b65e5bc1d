"""Thinking that is bound to the prefix: what is sent holds, and no more is lost than has to be."""

import logging
import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agora

# Private: a fault that no input causes.
from agora import Budget, Compressor, Reason, Session, bound_thinking
from agora.core.compression import Thinking
from agora.errors import IllegalMessagesError
from agora.formats.thinking import thinks
from harness.histories import edit_after
from harness.properties import bound
from harness.properties.bound import BoundViolationError, play

MODEL = "claude-fable-5-1"
EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "300"))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
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
    monkeypatch.setattr(Session, "_older", lambda *_: 0)

    with pytest.raises(BoundViolationError, match=r"refused|did not hold"):
        play_all("anthropic", "error", 200)


@pytest.mark.parametrize("event", ["shadow", "replica", "rewind", "refusal", "restart"])
def test_the_play_notices_a_change_that_is_not_followed(
    event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless(_: Session, place: Any, account: Any, sent_key: bytes) -> int:
        # As if nothing but an edit could change what stands before a block.
        is_new = account.state is not None and account.state.is_new
        return len(place.digests) if is_new else place.last.older if place.last else 0

    monkeypatch.setattr(bound, "_EVENTS", (event,))
    monkeypatch.setattr(Session, "_older", careless)
    monkeypatch.setattr("agora.compressor.binds", lambda _: False)

    with pytest.raises(BoundViolationError):
        play_all("anthropic", "drop", 400)


def test_the_play_notices_thinking_that_is_lost_without_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Session, "_older", lambda _, place, *__: len(place.digests))

    with pytest.raises(BoundViolationError, match="blocks were sent where"):
        play_all("bedrock", "drop", 100)


def every_call(**options: Any) -> Compressor:
    return Compressor(
        **{"edits": "every_call", "budget": Budget(limit=0), "min_tokens": 0, **options}
    )


def test_without_a_state_an_edit_takes_out_all_thinking() -> None:
    messages = conversation(8)

    compression = Compressor(edits="never").compress(messages, model=MODEL, state=edit_after(6, 0))

    assert compression.changed
    assert blocks_in(compression.messages) == []
    assert compression.thinking.blocks == 8
    assert compression.thinking.tokens > 0
    assert "8 thinking blocks taken out" in compression.summary()


def test_in_a_session_what_was_thought_after_an_edit_stays() -> None:
    session = Session(every_call(edits="by_price", forgetting=0.0))
    sent = []
    for steps in range(1, 40):
        compression = session.compress(conversation(steps), model=MODEL)
        session.answered(compression)
        assert compression.state is not None
        sent.append((compression.state.is_new, len(blocks_in(compression.messages))))

    assert any(is_new for is_new, _ in sent)
    for (_, before), (is_new, blocks) in pairwise(sent):
        assert blocks == (0 if is_new else before + 1)


def test_a_step_that_lost_its_thinking_may_be_removed_and_not_only_masked() -> None:
    messages = conversation(12)

    bound_to_prefix = every_call().compress(messages, model=MODEL)
    manual = every_call().compress(messages, model="claude-sonnet-4-5", thinking=True)

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
    messages = conversation(4)

    for compression in (
        Compressor().compress(messages, model=MODEL),
        Session().compress(messages, model=MODEL),
    ):
        assert compression.messages is messages
        assert compression.thinking == Thinking()


def test_the_caller_may_say_that_a_model_does_or_does_not_bind() -> None:
    messages = conversation(8)

    free = every_call(binds_thinking=False).compress(messages, model=MODEL)
    held = every_call(binds_thinking=True).compress(messages, model="claude-opus-4-8")

    assert len(blocks_in(free.messages)) == 8
    assert blocks_in(held.messages) == []


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


def test_an_illegal_history_is_handed_on_as_it_is() -> None:
    messages = conversation(8)[1:]

    assert Compressor().compress(messages, model=MODEL).messages is messages
    with pytest.raises(IllegalMessagesError):
        Compressor(strict=True).compress(messages, model=MODEL)


def test_a_refusal_of_thinking_is_followed_by_the_same_edit_without_it() -> None:
    session = Session(every_call(edits="by_price", forgetting=0.0))
    for steps in range(1, 30):
        sent = session.compress(conversation(steps), model=MODEL)
        session.answered(sent)
    assert blocks_in(sent.messages)

    again = session.refused(sent, about_thinking=True)

    assert again is not None
    assert blocks_in(again.messages) == []
    assert len(again.messages) == len(sent.messages)
    session.answered(again)
    assert blocks_in(session.compress(conversation(30), model=MODEL).messages) == ["signature 030"]


def test_a_conversation_that_nobody_knows_is_sent_without_what_was_thought_behind_an_edit() -> None:
    messages = conversation(40)

    compression = Session(Compressor(edits="free")).compress(messages, model=MODEL)

    assert compression.reason is Reason.THINKING_REMOVED
    assert blocks_in(compression.messages) == []
