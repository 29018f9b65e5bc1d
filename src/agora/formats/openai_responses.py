"""OpenAI Responses: `input` items, where a call and its output are items of their own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.request import Request
from agora.core.tokens import CALL_TOKENS, MESSAGE_TOKENS, TokenCounter
from agora.core.trajectory import Call
from agora.formats.base import (
    BodyFields,
    Message,
    MessageRole,
    Parsed,
    ParsedMessage,
    Rendered,
    Rule,
    RuleViolation,
    ShapeError,
    as_list,
    as_object,
    blocks_at,
    is_text,
    list_of_messages,
    object_at,
    sealed_tokens,
    text_at,
    texts_of,
    to_json,
)
from agora.formats.message_format import MEDIA_TOKENS, MessageFormat
from agora.formats.render import append_text

_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
}
"""The calls that the client answers, with the field of their arguments."""
_CALL_OF_OUTPUT = {f"{call}_output": call for call in _CALLS}
_TEXT_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
"""Outputs whose content may be any text, so that it can be replaced or added to."""
_HOSTED = frozenset({"web_search_call", "file_search_call", "code_interpreter_call", "mcp_call"})
"""Calls that the provider answers itself, inside the item."""
_BY_CLIENT = frozenset(("message", "mcp_approval_response"))
"""Parts of the client's messages besides outputs. Everything else may be the assistant's: unknown
kinds of items and item references too."""
_OWN_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})
_ROLES = {
    "user": MessageRole.USER,
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
    "assistant": MessageRole.AGENT,
}

R1 = Rule("R1", "No tool output found for {kind} {call_id}.", "unify-chat#152, openai-agents#2317")
R2 = Rule("R2", "No tool call found for {kind} with call_id {call_id}.", "OpenMinis#222")
R3 = Rule(
    "R3",
    "Item '{id}' of type 'reasoning' was provided without its required following item.",
    "vercel/ai#7099, openai-agents#1660",
)
R4 = Rule(
    "R4",
    "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item:"
    " '{reasoning}'.",
    "TanStack/ai#1212, continue#11994",
)
R9 = Rule(
    "R9",
    "The encrypted content for item {id} could not be verified."
    " Reason: Encrypted content could not be decrypted or parsed.",
    "LiteLLM incident of 2026-02-24",
)


class OpenAIResponses(MessageFormat):
    """The `input` of the Responses API: a list of items, or a plain string."""

    name = "responses"
    fields = BodyFields(
        messages="input",
        system=("instructions",),
        server_side=("previous_response_id", "conversation"),
    )
    rules = (R1, R2, R3, R4, R9)
    signs_thinking = True

    # Recognition

    def matches_message(self, message: Message) -> bool:
        return "type" in message and not ("parts" in message and "content" not in message)

    def matches_part(self, part: Message) -> bool:
        return part.get("type") in _OWN_PARTS

    def matches_body(self, body: Mapping[str, Any]) -> bool:
        return "input" in body

    # Messages

    def is_agent(self, message: Message) -> bool:
        if message.get("role") is not None:
            return bool(message["role"] == "assistant")
        kind = str(message.get("type", ""))
        return kind == "reasoning" or kind.endswith("_call")

    def call_ids(self, message: Message) -> list[str]:
        # Calls that the provider answers itself carry no call_id.
        is_call = "call_id" in message and str(message.get("type", "")).endswith("_call")
        return [str(message["call_id"])] if is_call else []

    def step_messages(
        self, call_id: str, name: str, arguments: Mapping[str, Any], result: str
    ) -> list[Message]:
        call = {"type": "function_call", "call_id": call_id, "name": name}
        return [
            {**call, "arguments": to_json(arguments)},
            {"type": "function_call_output", "call_id": call_id, "output": result},
        ]

    def result_ids(self, message: Message) -> list[str]:
        is_output = "call_id" in message and str(message.get("type", "")).endswith("_output")
        return [str(message["call_id"])] if is_output else []

    def answer(self, body: Mapping[str, Any]) -> list[Any] | None:
        output = body.get("output")
        if not isinstance(output, list):
            return None
        return [item for item in output if isinstance(item, dict)]

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Message:
        return {"type": "function", "name": name, "description": description, "parameters": schema}

    # Thinking

    def count_thinking(self, message: Message) -> int:
        return int(message.get("type") == "reasoning")

    # Reading

    def system_text(self, system: object) -> str:
        return system if isinstance(system, str) else ""

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        if isinstance(request.messages, str):
            text = request.messages
            builder = self.builder(request, counter)
            builder.add(ParsedMessage(MessageRole.USER, counter.count(text), text))
            return builder.parsed(request)
        return super().parse(request, counter)

    def read_message(self, message: Message, position: int, counter: TokenCounter) -> ParsedMessage:
        kind = message.get("type", "message")
        if kind == "message":
            return _read_message(message, counter)
        if kind in _CALLS:
            name = str(message.get("name") or kind)
            action = message.get(_CALLS[kind], "")
            arguments = action if isinstance(action, str) else to_json(action)
            tokens = CALL_TOKENS + counter.count(name) + counter.count(arguments)
            call_id = str(message.get("call_id", message.get("id")))
            calls = ((call_id, Call(name, arguments)),)
            return ParsedMessage(MessageRole.AGENT, tokens, calls=calls)
        if kind.endswith("_call_output"):
            return _read_output(message, kind, counter)
        if kind == "reasoning":
            return _read_reasoning(message, counter)
        tokens = MESSAGE_TOKENS + counter.count(to_json(message))
        # Compaction items, references, approvals and unknown kinds are never touched, and no step
        # with one is a candidate.
        reason = "" if kind in _HOSTED else f"holds a {kind} item"
        return ParsedMessage(MessageRole.AGENT, tokens, keep_reason=reason)

    # Writing

    def accepts_marker(self, message: Message) -> bool:
        return isinstance(message.get(_content_field(message)), str | list)

    def append_text(self, message: Message, text: str) -> Message:
        field = _content_field(message)
        return {**message, field: append_text(message[field], text, "input_text")}

    def replace_results(self, message: Message, notes: list[str]) -> Message:
        field = _content_field(message)
        parts = isinstance(message[field], list)
        content = [{"type": "input_text", "text": notes[0]}] if parts else notes[0]
        return {**message, field: content}

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        if isinstance(parsed.messages, str):
            return Rendered(parsed.messages, ())
        return super().render(parsed, forms, markers)

    # Checking

    def check(self, request: Request, before: object) -> Iterator[RuleViolation]:
        if isinstance(request.messages, str):
            return
        items = list_of_messages(request.messages, "input")
        kinds = [_kind(n, item) for n, item in enumerate(items)]
        yield from _check_pairs(items, kinds)
        for n, kind in enumerate(kinds):
            if kind == "reasoning" and (n + 1 == len(kinds) or not _is_made(kinds[n + 1])):
                yield R3.at(n, id=_text(items[n], "id"))
        if isinstance(before, list):
            before = [item for item in before if isinstance(item, dict)]
            yield from _check_runs(items, before)
            yield from _check_sealed(items, before)


def _content_field(item: Message) -> str:
    """Return the field of an item that takes a marker; a name that no item has, if none does."""
    if item.get("role") == "user":
        return "content"
    return "output" if item.get("type") in _TEXT_OUTPUTS else ""


def _read_message(item: Message, counter: TokenCounter) -> ParsedMessage:
    content = item.get("content")
    text, tokens = _read_content(content, counter)
    role = _ROLES.get(str(item.get("role")), MessageRole.INLINE_SYSTEM)
    mixed = isinstance(content, list) and not all(map(is_text, content))
    return ParsedMessage(role, MESSAGE_TOKENS + tokens, text, mixed=mixed)


def _read_output(item: Message, kind: str, counter: TokenCounter) -> ParsedMessage:
    text, tokens = _read_content(item.get("output"), counter)
    call_id = str(item.get("call_id", item.get("id")))
    # The other outputs have a shape of their own, without room for a marker. They go or stay whole.
    return ParsedMessage(
        MessageRole.RESULT,
        MESSAGE_TOKENS + tokens,
        text,
        answers=(call_id,),
        keep_reason="" if kind in _TEXT_OUTPUTS else f"holds a {kind} item",
    )


def _read_reasoning(item: Message, counter: TokenCounter) -> ParsedMessage:
    # Models with open weights send their reasoning itself, the others a summary.
    shown = (item.get("summary"), item.get("content"))
    thought = "\n".join(filter(None, map(texts_of, shown)))
    tokens = counter.count(thought) + sealed_tokens(item.get("encrypted_content"))
    return ParsedMessage(
        MessageRole.AGENT, MESSAGE_TOKENS + tokens, thought=thought, thinking_tokens=tokens
    )


def _read_content(content: object, counter: TokenCounter) -> tuple[str, int]:
    if isinstance(content, str):
        return content, counter.count(content)
    if isinstance(content, list):
        text = texts_of(content)
        media = sum(MEDIA_TOKENS.get(str(as_object(part).get("type")), 0) for part in content)
        return text, counter.count(text) + media
    if isinstance(content, dict):
        tokens = MEDIA_TOKENS.get(str(content.get("type")))
        text = to_json(content) if tokens is None else ""
        return text, counter.count(text) if tokens is None else tokens
    return "", 0


def _kind(n: int, item: object) -> str:
    """Return the type of an item; for a message "assistant" or "message"."""
    fields = object_at(item, n, "input[{n}]")
    kind = fields.get("type", "message")
    if kind != "message":
        return text_at(kind, n, "input[{n}].type")
    role = text_at(fields.get("role"), n, "input[{n}].role")
    if not isinstance(fields.get("content"), str):
        blocks_at(fields.get("content"), n, "input[{n}].content")
    return "assistant" if role == "assistant" else "message"


def _is_made(kind: str) -> bool:
    """Return True if the assistant's side made an item of this kind, as far as is known."""
    return kind not in _BY_CLIENT and not kind.endswith("_call_output")


def _check_pairs(items: Sequence[Message], kinds: list[str]) -> Iterator[RuleViolation]:
    """Yield calls without an output after them (R1) and outputs without a call before (R2).

    An item reference may be the call that seems to be missing, so with one no output is reported.
    """
    has_reference = "item_reference" in kinds
    places: dict[tuple[str, str], int] = {}
    calls: dict[int, str] = {}
    """The calls without an output so far, by position."""
    for n, (item, kind) in enumerate(zip(items, kinds, strict=True)):
        if kind in _CALLS:
            names = _names(n, item, kind)
            places.update(((kind, name), n) for name in names)
            calls[n] = names[0]
        elif kind in _CALL_OF_OUTPUT:
            names = _names(n, item, kind)
            answered = [places.get((_CALL_OF_OUTPUT[kind], name)) for name in names]
            for place in answered:
                if place is not None:
                    calls.pop(place, None)
            if not has_reference and all(place is None for place in answered):
                yield R2.at(n, kind=kind.replace("_", " "), call_id=names[0])
    for n, call_id in calls.items():
        yield R1.at(n, kind=kinds[n].replace("_", " "), call_id=call_id)


def _names(n: int, item: Message, kind: str) -> list[str]:
    """Return the ids of a call or an output: its call_id, for the local shell its id too."""
    fields = ("call_id", "id") if kind.startswith("local_shell") else ("call_id",)
    names = [name for field in fields if (name := _text(item, field)) is not None]
    if not names:
        raise ShapeError(n, "input[{n}].call_id", item.get("call_id"), "a string")
    return names


class _Made(NamedTuple):
    """An item that the assistant made: its place, and the reasoning right before its run."""

    position: int
    kind: str
    reasoning: dict[str, None]


def _check_runs(items: Sequence[Message], before: Sequence[Message]) -> Iterator[RuleViolation]:
    """Yield R4 for items that lost the reasoning they were made with."""
    originals = _made_items(before)
    # Items of one run share their reasoning, so a pair is compared once and not per item.
    lost: dict[tuple[int, int], str | None] = {}
    for name, made in _made_items(items).items():
        original = originals.get(name)
        if original is None:
            continue
        pair = (id(original.reasoning), id(made.reasoning))
        if pair not in lost:
            missing = (one for one in original.reasoning if one not in made.reasoning)
            lost[pair] = next(missing, None)
        if lost[pair] is not None:
            yield R4.at(made.position, id=name, kind=made.kind, reasoning=lost[pair])


def _made_items(items: Sequence[Message]) -> dict[str, _Made]:
    """Return every item with a name that the assistant made, under that name."""
    made: dict[str, _Made] = {}
    reasoning: dict[str, None] = {}
    previous = ""
    for n, item in enumerate(items):
        kind = _text(item, "type") or "message"
        if kind == "reasoning":
            if previous != "reasoning":
                reasoning = {}
            reasoning[_text(item, "id") or _text(item, "encrypted_content") or ""] = None
        elif not _is_made(kind) and item.get("role") != "assistant":
            reasoning = {}
        else:
            name = _text(item, "id") or _text(item, "call_id")
            if name is not None:
                made[name] = _Made(n, kind, reasoning)
        previous = kind
    return made


def _check_sealed(items: Sequence[Message], before: Sequence[Message]) -> Iterator[RuleViolation]:
    """Yield R9 for sealed items that were changed."""
    known = {_sealed(item) for item in before}
    for n, item in enumerate(items):
        sealed = _sealed(item)
        if sealed is not None and sealed not in known:
            yield R9.at(n, id=_text(item, "id"))


def _sealed(item: Message) -> tuple[object, ...] | None:
    """Return the fields of an item with encrypted content that must not change, or None."""
    content = _text(item, "encrypted_content")
    if content is None:
        return None
    texts = [
        tuple(_text(as_object(part), "text") for part in as_list(item.get(name)))
        for name in ("summary", "content")
    ]
    has_summary = isinstance(item.get("summary"), list)
    return _text(item, "type"), _text(item, "id"), content, has_summary, *texts


def _text(item: Message, field: str) -> str | None:
    value = item.get(field)
    return value if isinstance(value, str) else None
