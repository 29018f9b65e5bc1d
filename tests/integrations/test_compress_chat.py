import copy
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, with_text
from agora.integrations.wire import call, text_part, wire_of
from agora.testing import History, RandomScorer, histories

Message = dict[str, Any]
COMPRESSORS = st.builds(
    lambda ratio, seed, recent: Compressor(
        scorer=RandomScorer(seed),
        budget=Budget(keep_ratio=ratio),
        k_recent=recent,
        schedule="every_call",
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

    compressed = compress_chat(Compressor(schedule="every_call"), chat, format="anthropic")

    assert compressed is not None
    assert compressed.compression.trajectory is not None
    assert compressed.rebuild(chat, edit)[0] is chat[0]


def test_thinking_of_anthropic_keeps_its_steps_in_any_dialect() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    chat: list[Message] = [{"role": "user", "content": "Find it."}]
    for number in range(9):
        chat += step(number, f"row {number} " * 60)
    chat[1]["thoughts"] = [thought]

    compressed = compress_chat(Compressor(schedule="every_call"), chat)

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

    compressed = compress_chat(Compressor(schedule="every_call"), chat, format=format)

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
