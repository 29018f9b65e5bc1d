"""Agents that act by text are recognised, people are not taken for one, and nothing flips."""

import random
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Budget, Compressor, Reason
from agora.formats import make_request, parse
from harness.chats import human_chat, lost

FORMATS = ("openai", "anthropic", "responses", "gemini", "bedrock")
SMALLEST = Compressor(
    edits="every_call", budget=Budget(limit=1), k_recent=0, min_tokens=0, strict=True
)
CHATS = 10_000
Message = dict[str, Any]


def in_format(chat: list[Message], format: str) -> tuple[list[Message], dict[str, Any]]:
    """Return a chat as one format has it, and what stands beside the messages there."""
    if format == "openai":
        return chat, {}
    said = [{"role": m["role"], "content": m["content"]} for m in chat if m["role"] != "system"]
    system = next((m["content"] for m in chat if m["role"] == "system"), None)
    if format in ("anthropic", "responses"):
        return said, {"system": system}
    # The roles alternate in the others.
    said = [m for n, m in enumerate(said) if not n or m["role"] != said[n - 1]["role"]]
    if format == "bedrock":
        blocks = [{**m, "content": [{"text": m["content"]}]} for m in said]
        return blocks, {"system": [{"text": system}] if system else None}
    roles = {"user": "user", "assistant": "model"}
    contents = [{"role": roles[m["role"]], "parts": [{"text": m["content"]}]} for m in said]
    return contents, {"system": system}


def flat(messages: list[Message]) -> list[Message]:
    """Return messages of any format with the text of each for its content."""
    plain = []
    for message in messages:
        content = message.get("content", message.get("parts"))
        if isinstance(content, list):
            content = "\n\n".join(part["text"] for part in content)
        plain.append({"role": message["role"], "content": content})
    return plain


@pytest.mark.parametrize("format", FORMATS)
def test_no_person_loses_a_sentence(format: str) -> None:
    start = FORMATS.index(format)
    for seed in range(start, CHATS, len(FORMATS)):
        chat, beside = in_format(human_chat(random.Random(seed)), format)
        compression = SMALLEST.compress(chat, format=format, **beside)

        assert compression.reason is Reason.NOTHING_TO_ELIDE, seed
        assert not lost(flat(chat), flat(compression.messages)), seed


def test_the_check_on_lost_sentences_can_fail() -> None:
    chats = [human_chat(random.Random(seed)) for seed in range(50)]
    told = [lost(chat, SMALLEST.compress(chat, observations="user").messages) for chat in chats]

    assert sum(map(bool, told)) > 25


ACTION = "THOUGHT: on\n\n```bash\nls\n```"
RAN = "<returncode>0</returncode>\n<output>\n{}\n</output>"
WAYS = {
    "returncode": (ACTION, RAN),
    "react": ("Thought: on\nAction: ls", "Observation: {}"),
    "tags": ("<tool_call>ls</tool_call>", "<tool_response>{}</tool_response>"),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("way", WAYS)
def test_what_the_user_says_between_observations_stays(way: str, format: str) -> None:
    action, answer = WAYS[way]
    chat: list[Message] = [{"role": "user", "content": "Repair it."}]
    for n in range(20):
        chat += [
            {"role": "assistant", "content": action},
            {"role": "user", "content": answer.format(f"line {n} " * 50)},
        ]
        if n % 5 == 2:
            chat += [
                {"role": "assistant", "content": "Shall I go on?"},
                {"role": "user", "content": f"Yes, but leave file {n} alone."},
            ]
    said = [m["content"] for m in chat if m["role"] == "user" and "line" not in m["content"]]
    compression = SMALLEST.compress(in_format(chat, format)[0], format=format)

    assert len(compression.decisions) == 20
    assert compression.changed
    sent = "\n".join(m["content"] for m in flat(compression.messages))
    assert all(text in sent for text in said)


PICTURES: dict[str, Message] = {
    "openai": {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    "anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AA"},
    },
    "responses": {"type": "input_image", "image_url": "data:image/png;base64,AA"},
    "gemini": {"inlineData": {"mimeType": "image/png", "data": "AA"}},
    "bedrock": {"image": {"format": "png", "source": {"bytes": b"AA"}}},
}


@pytest.mark.parametrize("format", FORMATS)
def test_a_message_with_a_picture_is_no_observation(format: str) -> None:
    text: Message = {"text": RAN.format("a.py")}
    if format in ("openai", "anthropic", "responses"):
        text["type"] = "input_text" if format == "responses" else "text"
    chat, _ = in_format(
        [{"role": "user", "content": "Repair it."}, {"role": "assistant", "content": ACTION}],
        format,
    )
    field = "parts" if format == "gemini" else "content"
    for parts, steps in (([text], 1), ([text, PICTURES[format]], 0)):
        request = make_request([*chat, {"role": "user", field: parts}], format=format)
        assert len(parse(request).trajectory.steps) == steps


def test_a_greeting_is_not_the_agents_first_word() -> None:
    chat = [
        {"role": "assistant", "content": ACTION},
        {"role": "user", "content": RAN.format("Repair it.")},
        {"role": "assistant", "content": ACTION},
        {"role": "user", "content": RAN.format("a.py")},
    ]

    assert parse(make_request(chat)).step_of_message == [0, 0, 1, -1]


@pytest.mark.parametrize("system", ["{}", [{"type": "text", "text": "{}"}], None])
def test_system_text_beside_the_messages_counts_as_the_prompt(system: Any) -> None:
    shell = "\n(Open file: n/a)\n(Current directory: /r)\nbash-$"
    chat = [
        {"role": "user", "content": f"Repair it.{shell}"},
        {"role": "assistant", "content": "ls"},
        {"role": "user", "content": f"a.py{shell}"},
    ]
    told = "the prompt is (Open file: <path>)"
    if isinstance(system, str):
        system = told
    elif system:
        system = [{"type": "text", "text": told}]
    request = make_request(chat, format="anthropic", system=system)

    assert len(parse(request).trajectory.steps) == bool(system)


def test_the_caller_can_switch_recognition_off() -> None:
    chat = [
        {"role": "user", "content": "Repair it."},
        {"role": "assistant", "content": ACTION},
        {"role": "user", "content": RAN.format("a.py")},
    ]

    assert parse(make_request(chat)).trajectory.steps
    assert not parse(make_request(chat, observations="none")).trajectory.steps


@pytest.mark.parametrize("format", FORMATS)
def test_a_long_talk_without_steps_asks_whether_the_agent_acts_by_text(format: str) -> None:
    talk = [{"role": role, "content": "well"} for _ in range(10) for role in ("user", "assistant")]
    chat, _ = in_format([*talk, talk[0]], format)

    asked = SMALLEST.compress(chat, format=format)
    assert "observations" in asked.detail
    assert asked.detail in asked.summary()
    assert not SMALLEST.compress(chat[2:], format=format).detail
    assert not SMALLEST.compress(chat, format=format, observations="none").detail


def test_a_plain_string_is_no_talk() -> None:
    assert not SMALLEST.compress("hello", format="responses").detail


_SAID = st.sampled_from(
    [*(action for action, _ in WAYS.values()), "Well.", "```\nls\n```", "Action: go", ""]
)
_ANSWERED = st.sampled_from(
    [
        *(answer.format("a.py") for _, answer in WAYS.values()),
        RAN.format("a.py") + "\nWhy?",
        "Observation: it hangs",
        "<output>x</output>",
        "Please stop.",
        "",
    ]
)


@st.composite
def talks(draw: st.DrawFn) -> list[Message]:
    """Return chats of agents, of people and of both, with tool calls here and there."""
    messages: list[Message] = []
    ids = count()
    kinds = st.sampled_from(["turn", "turn", "turn", "turn", "user", "assistant", "system", "call"])
    if draw(st.booleans()):
        messages.append({"role": "user", "content": "Repair it."})
    for kind in draw(st.lists(kinds, max_size=12)):
        if kind in ("turn", "assistant"):
            messages.append({"role": "assistant", "content": draw(_SAID)})
        if kind in ("turn", "user"):
            messages.append({"role": "user", "content": draw(_ANSWERED)})
        if kind == "system":
            messages.append({"role": "system", "content": "Mind the time."})
        if kind == "call":
            call_id = f"c{next(ids)}"
            call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": ""}}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call_id, "content": "ok"},
            ]
    return messages


@given(talks())
def test_what_was_decided_of_a_message_never_changes(messages: list[Message]) -> None:
    request = make_request(messages, format="openai")
    owners = parse(request).step_of_message
    for end in range(len(messages)):
        before = parse(replace(request, messages=messages[:end])).step_of_message
        for at, message in enumerate(messages[:end]):
            if message["role"] == "user":
                assert before[at] == owners[at]


@given(talks())
def test_only_whole_frames_are_ever_candidates(messages: list[Message]) -> None:
    in_template = {answer.format("a.py") for _, answer in WAYS.values()}
    in_template |= {"Observation: it hangs", "<output>x</output>"}
    owners = parse(make_request(messages, format="openai")).step_of_message
    for message, owner in zip(messages, owners, strict=True):
        if message["role"] == "user" and owner:
            assert message["content"] in in_template
