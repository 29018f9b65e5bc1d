import copy
import logging
import secrets
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.rent_or_buy import Edit, Sizes
from agora.formats.thinking import REMOVED, thinks
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, is_bound, with_text
from agora.integrations.wire import call, text_part, wire_of
from harness.histories import EveryNth, History, RandomScorer
from harness.histories.strategies import histories

Message = dict[str, Any]
COMPRESSORS = st.builds(
    lambda ratio, seed, recent: Compressor(
        scorer=RandomScorer(seed),
        budget=Budget(keep_ratio=ratio),
        k_recent=recent,
        edits="every_call",
    ),
    st.sampled_from((0.0, 0.25, 0.6)),
    st.integers(0, 3),
    st.integers(0, 2),
)


def edit(message: Message, kept: Kept) -> list[Message]:
    if kept.how == "after":
        return [{"role": "user", "content": [text_part(text) for text in kept.texts]}]
    return [{**message, "content": with_text(message["content"], kept)}]


@given(history=histories("openai"), compressor=COMPRESSORS)
def test_compressed_chat_messages_are_the_messages_compressed(
    history: History, compressor: Compressor
) -> None:
    before = copy.deepcopy(history.messages)
    tools: Any = history.tools or ()
    compressed = compress_chat(compressor, history.messages, tools=tools)
    compression = compressor.compress(history.messages, format="openai", tools=history.tools)

    assert history.messages == before
    assert (compressed is not None) == compression.changed
    if compressed is not None:
        assert compressed.rebuild(history.messages, edit) == compression.messages


@st.composite
def chats(draw: st.DrawFn, thinking: dict[str, Any] | None = None) -> list[Message]:
    """Draw what a framework may hold: parallel calls, words before them, users in between."""
    images = draw(st.booleans())
    picture = {"type": "image_url", "image_url": {"url": "data:"}}
    task: Any = [text_part("Find it."), picture] if images else "Find it."
    chat: list[Message] = [{"role": "user", "content": task}]
    number = 0
    for _ in range(draw(st.integers(1, 9))):
        size = draw(st.integers(0, 80))
        said = draw(st.sampled_from(("", "Next.")))
        made = [call(f"c{number + n}", "read", "{}") for n in range(draw(st.integers(1, 3)))]
        number += len(made)
        answer: Message = {"role": "assistant", "content": said, "tool_calls": made}
        if thinking and draw(st.booleans()):
            answer["thoughts"] = [thinking]
        chat.append(answer)
        for c in made:
            text = f"row {c['id']} " * size
            chat.append({"role": "tool", "tool_call_id": c["id"], "content": text})
        if draw(st.integers(0, 4)) == 0:
            if draw(st.booleans()):
                chat.append({"role": "assistant", "content": "Done.", "tool_calls": []})
            chat.append({"role": "user", "content": draw(st.sampled_from(("On.", "")))})
    return chat


THOUGHTS = {
    "openai": None,
    "responses": {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"},
    "anthropic": {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
}


@pytest.mark.parametrize("format", THOUGHTS)
@settings(deadline=None)  # The first example reads prices and models from files.
@given(data=st.data(), compressor=COMPRESSORS)
def test_what_a_framework_will_send_of_them_is_what_was_compressed(
    format: str, data: st.DataObject, compressor: Compressor
) -> None:
    chat = data.draw(chats(THOUGHTS[format]))
    before = copy.deepcopy(chat)
    compressed = compress_chat(compressor, chat, format=format, system="Read.")

    assert chat == before
    if compressed is not None:
        sent = wire_of(format, compressed.rebuild(chat, edit), "Read.", ())
        assert sent.messages == compressed.compression.messages


def step(number: int, text: str) -> list[Message]:
    calls = [call(f"c{number}", "read", "{}")]
    return [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]


def test_system_messages_stay_where_they_stood_though_they_go_out_beside() -> None:
    chat = [{"role": "system", "content": "Read."}, {"role": "user", "content": "Find it."}]
    for number in range(9):
        chat += step(number, f"row {number} " * 60)

    compressed = compress_chat(Compressor(edits="every_call"), chat, format="anthropic")

    assert compressed is not None
    assert compressed.compression.trajectory is not None
    assert compressed.rebuild(chat, edit)[0] is chat[0]


def test_thinking_of_anthropic_keeps_its_steps_in_any_dialect() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    chat: list[Message] = [{"role": "user", "content": "Find it."}]
    for number in range(9):
        chat += step(number, f"row {number} " * 60)
    chat[1]["thoughts"] = [thought]

    compressed = compress_chat(Compressor(edits="every_call"), chat)

    assert compressed is not None
    assert [k.position for k in compressed.kept] == list(range(len(chat)))
    assert {k.how for k in compressed.kept if k.texts} == {"replace"}


@pytest.mark.parametrize("format", THOUGHTS)
def test_an_answer_without_calls_does_not_keep_a_conversation_from_being_compressed(
    format: str,
) -> None:
    chat: list[Message] = [{"role": "user", "content": "Find it."}]
    for number in range(9):
        chat += step(number, f"row {number} " * 60)
        if number == 4:
            answer = {"role": "assistant", "content": "Found.", "tool_calls": [], "thoughts": []}
            chat += [answer, {"role": "user", "content": "Once more."}]

    compressed = compress_chat(Compressor(edits="every_call"), chat, format=format)

    assert compressed is not None
    assert chat[11] in compressed.rebuild(chat, edit)


def test_only_the_first_failure_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    fail_open = FailOpen(logging.getLogger("agora.test"))

    def fail() -> str:
        raise ValueError("planted")

    with caplog.at_level(logging.DEBUG):
        given = [fail_open(fail, "as it was") for _ in range(3)]

    assert given == ["as it was"] * 3
    assert [record.levelno for record in caplog.records] == [
        logging.WARNING,
        logging.DEBUG,
        logging.DEBUG,
    ]
    assert "messages handed on unchanged: ValueError: planted" in caplog.text


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
BOUND = "claude-fable-5-1"


def bare(message: Message) -> Message:
    return {**message, "thoughts": []}


@settings(deadline=None)  # The first example reads prices and models from files.
@given(data=st.data(), compressor=COMPRESSORS)
def test_on_a_model_that_binds_thinking_what_will_be_sent_is_what_was_compressed(
    data: st.DataObject, compressor: Compressor
) -> None:
    chat = data.draw(chats(THOUGHT))
    for number, message in enumerate(chat):
        if message.get("thoughts"):
            signature = f"{data.draw(st.uuids())} {number}"
            message["thoughts"] = [{**THOUGHT, "signature": signature}]
    before = copy.deepcopy(chat)
    compressed = compress_chat(compressor, chat, format="anthropic", model=BOUND)

    assert chat == before
    if compressed is not None:
        rebuilt = compressed.rebuild(chat, edit, bare)
        sent = wire_of("anthropic", rebuilt, None, ())
        assert sent.messages == compressed.compression.messages
        assert not any(thinks(message) for message in sent.messages)


def thinking_steps(count: int) -> list[Message]:
    chat: list[Message] = [{"role": "user", "content": "Find it."}]
    run = secrets.token_hex()
    for number in range(count):
        chat += step(number, f"row {number} " * 60)
        chat[-2]["thoughts"] = [{**THOUGHT, "signature": f"{run} {number}"}]
    return chat


@pytest.mark.parametrize("format", ["anthropic", "openai"])
def test_an_edit_takes_out_the_thinking_that_is_older_and_no_other(format: str) -> None:
    chat = thinking_steps(40)
    before = copy.deepcopy(chat)

    every = compress_chat(Compressor(edits="every_call"), chat, format=format, model=BOUND)
    chat_again = thinking_steps(40)
    nth = compress_chat(Compressor(schedule=EveryNth(25)), chat_again, format=format, model=BOUND)

    assert every is not None
    assert nth is not None
    said = [k for k in every.kept if chat[k.position]["role"] == "assistant"]
    assert said
    assert all(k.thoughtless and not k.texts for k in said)
    later = [k for k in nth.kept if chat_again[k.position]["role"] == "assistant"]
    assert {k.thoughtless for k in later if k.position > 2 * 25} == {False}
    assert {k.thoughtless for k in later if k.position <= 2 * 25} == {True}
    assert chat == before


def test_a_message_of_nothing_but_thinking_takes_a_text() -> None:
    chat = thinking_steps(9)
    only = {"role": "assistant", "content": "", "tool_calls": [], "thoughts": [THOUGHT]}
    chat += [only, {"role": "user", "content": "And now?"}]

    compressed = compress_chat(Compressor(edits="every_call"), chat, model=BOUND)

    assert compressed is not None
    assert compressed.kept[-2] == Kept(len(chat) - 2, (REMOVED,), apart=True, thoughtless=True)
    rebuilt = compressed.rebuild(chat, edit, bare)
    assert rebuilt[-2]["content"] == [text_part(REMOVED)]
    runs = [(at, [message]) for at, message in enumerate(chat)]
    stays = compressed.regroup(
        runs, lambda run, kept: edit(run[0], kept), lambda run: [bare(run[0])]
    )
    assert [message for run in stays.values() for message in run] == rebuilt


def test_a_model_that_does_not_bind_keeps_its_thinking() -> None:
    chat = thinking_steps(9)

    compressed = compress_chat(Compressor(edits="every_call"), chat, model="claude-opus-4-5")

    assert compressed is not None
    assert not any(k.thoughtless for k in compressed.kept)


def test_the_rules_of_a_model_that_binds_hold_before_its_first_thought() -> None:
    chat = thinking_steps(9)
    for message in chat:
        if "thoughts" in message:
            message["thoughts"] = []

    compressed = compress_chat(Compressor(edits="every_call"), chat, model=BOUND)

    assert compressed is not None
    assert compressed.compression.format == "anthropic"


class FailsOnce:
    """A schedule that edits at every sixth step and raises when it is first asked again."""

    def __init__(self) -> None:
        self.calls = 0

    def edit(self, sizes: Sizes) -> Edit:
        self.calls += 1
        if self.calls == 2:
            raise RuntimeError("planted")
        return EveryNth(6).edit(sizes)


def test_what_was_thought_in_a_call_that_went_out_unedited_is_taken_out_of_the_next() -> None:
    chat = thinking_steps(9)
    compressor = Compressor(schedule=FailsOnce(), strict=True)

    first = compress_chat(compressor, chat[: 1 + 2 * 7], model=BOUND)
    with pytest.raises(RuntimeError, match="planted"):
        compress_chat(compressor, chat[: 1 + 2 * 8], model=BOUND)
    then = compress_chat(compressor, chat, model=BOUND)

    assert first is not None
    assert then is not None
    assert [k.thoughtless for k in first.kept if k.position == 13] == [False]
    thought = [k for k in then.kept if chat[k.position]["role"] == "assistant"]
    assert {k.position for k in thought} >= {13, 15, 17}
    assert all(k.thoughtless for k in thought)


def test_where_an_edit_fails_a_model_that_binds_gets_no_thinking(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> str:
        raise ValueError("planted")

    with caplog.at_level(logging.DEBUG):
        given = [
            FailOpen(logging.getLogger("agora.test"))(fail, "as it was", lambda: "bare"),
            FailOpen(logging.getLogger("agora.test"))(fail, "as it was", fail),
        ]

    assert given == ["bare", "as it was"]
    assert "messages handed on without thinking: ValueError: planted" in caplog.text
    assert "messages handed on unchanged: ValueError: planted" in caplog.text


@pytest.mark.parametrize(
    ("told", "model", "bound"),
    [(None, BOUND, True), (None, "gpt-5", False), (True, None, True), (False, BOUND, False)],
)
def test_a_setting_says_whether_a_model_binds_else_its_name(
    told: bool | None, model: str | None, bound: bool
) -> None:
    assert is_bound(Compressor(binds_thinking=told), model) == bound
