"""OpenAI chat completions, and all APIs of that shape: `role`, `content`, `tool_calls`."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agora.core.request import Request
from agora.core.tokens import CALL_TOKENS, MESSAGE_TOKENS, TokenCounter
from agora.core.trajectory import Call
from agora.formats import chat_dialects
from agora.formats.base import (
    BodyFields,
    Message,
    MessageRole,
    ParsedMessage,
    Rule,
    RuleViolation,
    as_list,
    as_object,
    blocks_at,
    is_text,
    list_of_messages,
    object_at,
    text_at,
    texts_of,
    thinking_setting,
)
from agora.formats.message_format import MEDIA_TOKENS, MessageFormat
from agora.formats.render import append_text

# Bound once: looking a member up costs as much as a third of reading a short message does.
_AGENT, _RESULT = MessageRole.AGENT, MessageRole.RESULT
_OWN_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
_ANSWER_FIELDS = ("content", "tool_calls", "function_call", "refusal", "reasoning_content")
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_HOLDERS = frozenset({"user", "tool", "function"})
_SYSTEM = frozenset({"system", "developer"})
_FUNCTION = "function:"
"""Before `tool_calls` a call had no id: its name is used as the id."""

O1 = Rule(
    "O1",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
    " 'tool_call_id'. The following tool_call_ids did not have response messages: {ids}",
    "litellm#10696, caused by `trim_messages`",
)
O2 = Rule(
    "O2",
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with"
    " 'tool_calls'.",
    "litellm#4931, langchain#35313",
)
T1 = Rule(
    "T1",
    "After the optional system message, conversation roles must alternate"
    " user/assistant/user/assistant/...",
    "open chat templates, as llama.cpp and vLLM run them",
    strict=True,
)


class OpenAIChat(MessageFormat):
    """The `messages` of chat completions."""

    name = "openai"
    fields = BodyFields(messages="messages", system=("system",), thinks=thinking_setting)
    rules = (O1, O2, chat_dialects.O7, T1)
    signs_thinking = True
    splits_turns = True

    # Recognition

    def matches_message(self, message: Message) -> bool:
        if "type" in message or ("parts" in message and "content" not in message):
            return False
        if message.get("role") in ("tool", "function"):
            return True
        return "tool_calls" in message or "function_call" in message

    def matches_part(self, part: Message) -> bool:
        return part.get("type") in _OWN_PARTS

    # Messages

    def call_ids(self, message: Message) -> list[str]:
        return [str(as_object(call).get("id")) for call in as_list(message.get("tool_calls"))]

    def result_ids(self, message: Message) -> list[str]:
        return [str(message["tool_call_id"])] if message.get("tool_call_id") else []

    def step_messages(
        self, call_id: str, name: str, arguments: Mapping[str, Any], result: str
    ) -> list[Message]:
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": call_id, "type": "function", "function": function}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": result},
        ]

    def calls_tools(self, message: Message) -> bool:
        return bool(message.get("tool_calls") or message.get("function_call"))

    def answer(self, body: Mapping[str, Any]) -> list[Any] | None:
        """Return the first choice as it would be sent back: without its empty fields."""
        choices = body.get("choices")
        if not isinstance(choices, list):
            return None
        message = as_object(as_object(choices[0] if choices else None).get("message"))
        fields = {name: message[name] for name in _ANSWER_FIELDS if message.get(name)}
        return [{"role": "assistant", **fields}] if fields else []

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Message:
        function = {"name": name, "description": description, "parameters": schema}
        return {"type": "function", "function": function}

    # Thinking

    def count_thinking(self, message: Message) -> int:
        return chat_dialects.count_thinking(message)

    def without_thinking(self, message: Message) -> Message:
        return chat_dialects.without_thinking(message)

    # Reading

    def system_text(self, system: object) -> str:
        return system if isinstance(system, str) else ""

    def read_message(self, message: Message, position: int, counter: TokenCounter) -> ParsedMessage:
        role = message["role"]
        content = message.get("content")
        if isinstance(content, str):
            text, tokens = content, MESSAGE_TOKENS + counter.count(content)
        elif content is None:
            text, tokens = "", MESSAGE_TOKENS
        else:
            text = texts_of(content)
            media = sum(MEDIA_TOKENS.get(str(as_object(p).get("type")), 0) for p in content)
            tokens = MESSAGE_TOKENS + counter.count(text) + media
        if role == "tool":
            return ParsedMessage(_RESULT, tokens, text, answers=(message["tool_call_id"],))
        if role == "assistant":
            return _read_agent(message, text, tokens, counter)
        if role == "user":
            mixed = isinstance(content, list) and not all(map(is_text, content))
            return ParsedMessage(MessageRole.USER, tokens, text, mixed=mixed)
        if role == "function":
            answers = (_FUNCTION + str(message.get("name")),)
            return ParsedMessage(_RESULT, tokens, text, answers=answers)
        return ParsedMessage(
            MessageRole.SYSTEM if role in _SYSTEM else MessageRole.INLINE_SYSTEM, tokens, text
        )

    # Writing

    def accepts_marker(self, message: Message) -> bool:
        return message.get("role") in _HOLDERS and isinstance(message.get("content"), str | list)

    def append_text(self, message: Message, text: str) -> Message:
        return {**message, "content": append_text(message["content"], text, "text")}

    def replace_results(self, message: Message, notes: list[str]) -> Message:
        parts = isinstance(message.get("content"), list)
        content = [{"type": "text", "text": notes[0]}] if parts else notes[0]
        return {**message, "content": content}

    # Checking

    def check(self, request: Request, before: object) -> Iterator[RuleViolation]:
        messages = list_of_messages(request.messages, "messages")
        yield from _check_pairs(messages)
        yield from _check_alternation(messages)
        if isinstance(before, list):
            yield from chat_dialects.check_reasoning(messages, before)


def _read_agent(message: Message, text: str, tokens: int, counter: TokenCounter) -> ParsedMessage:
    calls = []
    for call in message.get("tool_calls") or ():
        body = call.get("function") or call.get("custom") or {}
        name = str(body.get("name", "")) or "tool"
        arguments = str(body.get("arguments", body.get("input", "")))
        calls.append((call["id"], Call(name, arguments)))
        # Counted as one text: a second count of a short one costs as much as the first.
        tokens += CALL_TOKENS + counter.count(name + arguments)
    legacy = message.get("function_call")
    if legacy:
        name, arguments = str(legacy.get("name")), str(legacy.get("arguments", ""))
        calls.append((_FUNCTION + name, Call(name, arguments)))
        tokens += CALL_TOKENS + counter.count(name + arguments)
    thought, thought_tokens = chat_dialects.read_reasoning(message, counter)
    return ParsedMessage(_AGENT, tokens + thought_tokens, text, thought, tuple(calls))


def _check_pairs(messages: list[Any]) -> Iterator[RuleViolation]:
    """Yield calls without a result (O1) and results without a call (O2).

    Pairing is by position: a result answers the assistant message right before its run of tool
    messages, so the same id may come again in a later one.
    """
    pending: dict[str, int] = {}
    asked_at = 0
    for n, item in enumerate(messages):
        message = object_at(item, n, "messages[{n}]")
        role = text_at(message.get("role"), n, "messages[{n}].role")
        _check_content(n, message)
        if role == "tool":
            call_id = text_at(message.get("tool_call_id"), n, "messages[{n}].tool_call_id")
            if pending.get(call_id):
                pending[call_id] -= 1
            else:
                yield O2.at(n)
            continue
        if pending:
            yield from _check_answered(pending, asked_at)
            pending = {}
        if role == "assistant" and message.get("tool_calls") is not None:
            asked_at = n
            where = "messages[{n}].tool_calls"
            for call in blocks_at(message["tool_calls"], n, where):
                call_id = text_at(call.get("id"), n, "messages[{n}].tool_calls.id")
                pending[call_id] = pending.get(call_id, 0) + 1
    yield from _check_answered(pending, asked_at)


def _check_content(n: int, message: Message) -> None:
    content = message.get("content")
    if isinstance(content, str):
        return
    if content is None:
        # A legacy function may return nothing: null.
        others = _INSTEAD_OF_CONTENT if message["role"] == "assistant" else ()
        if message["role"] == "function" or any(message.get(name) is not None for name in others):
            return
    blocks_at(content, n, "messages[{n}].content")


def _check_answered(pending: Mapping[str, int], asked_at: int) -> Iterator[RuleViolation]:
    missing = [call_id for call_id, count in pending.items() if count]
    if missing:
        yield O1.at(asked_at, ids=", ".join(missing))


def _check_alternation(messages: list[Any]) -> Iterator[RuleViolation]:
    """Yield T1; calls and their results do not count in the alternation."""
    last: object = "assistant"
    for n, message in enumerate(messages):
        role = message["role"]
        calls = message.get("tool_calls") or message.get("function_call")
        if role == "user" or (role == "assistant" and not calls):
            if role == last:
                yield T1.at(n)
            last = role
