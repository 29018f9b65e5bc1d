"""Gemini `generateContent`: turns made of parts; the turn after a function call answers it.

Every field has two spellings: the API's own, and the one the Python SDK dumps.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agora.core.request import Request
from agora.core.tokens import (
    CALL_TOKENS,
    FILE_TOKENS,
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    TokenCounter,
)
from agora.core.trajectory import Call
from agora.formats.base import (
    BodyFields,
    Message,
    MessageRole,
    ParsedMessage,
    Rule,
    RuleViolation,
    ShapeError,
    as_list,
    as_object,
    blocks_at,
    list_of_messages,
    object_at,
    sealed_tokens,
    to_json,
)
from agora.formats.message_format import MessageFormat, message_of_user
from agora.formats.render import GAP

_CALL = ("functionCall", "function_call")
_RESPONSE = ("functionResponse", "function_response")
_SIGNATURE = ("thoughtSignature", "thought_signature")
_MEDIA = ("inlineData", "inline_data", "fileData", "file_data")
_CONTENT = frozenset(
    {
        *_MEDIA,
        *("text", "executableCode", "executable_code"),
        *("codeExecutionResult", "code_execution_result"),
    }
)
_ABOUT = frozenset(
    {
        *_SIGNATURE,
        *("thought", "videoMetadata", "video_metadata"),
        *("mediaResolution", "media_resolution", "partMetadata", "part_metadata"),
    }
)
"""Fields that describe a part and are not its content."""
_TEXT_FIELDS = ("output", "result", "error", "content", "note")
"""The fields of a tool's text: Gemini CLI uses `output`, ADK and LangChain `result`."""
_ROLES = (None, "user", "model", "function")

G1 = Rule(
    "G1",
    "Please ensure that function call turn comes immediately after a user turn or after a function"
    " response turn.",
    "the API's error texts in public threads",
)
G2 = Rule(
    "G2",
    "Please ensure that function response turn comes immediately after a function call turn.",
    "the API's error texts in public threads",
)
G3 = Rule(
    "G3",
    "Please ensure that the number of function response parts is equal to the number of function"
    " call parts of the function call turn.",
    "the API's error texts in public threads",
)
G5 = Rule(
    "G5",
    "Please ensure that multiturn requests end with a user turn or a function response turn.",
    "the API's error texts in public threads",
)
G6 = Rule(
    "G6",
    "Please ensure that multiturn requests alternate between user and model.",
    "older models",
    strict=True,
)
G7 = Rule(
    "G7",
    "Unable to submit request because it has an empty text parameter."
    " Add a value to the parameter and try again.",
    "Vertex AI",
    strict=True,
)
G9 = Rule("G9", "Invalid thought signature.", "Gemini 3")


def _thinks(body: Mapping[str, Any]) -> bool | None:
    settings = as_object(body.get("generationConfig", body.get("generation_config")))
    thinking = settings.get("thinkingConfig", settings.get("thinking_config"))
    if not isinstance(thinking, dict):
        return None
    return thinking.get("thinkingBudget", thinking.get("thinking_budget")) != 0


class Gemini(MessageFormat):
    """The `contents` of `generateContent`."""

    name = "gemini"
    fields = BodyFields(
        messages="contents", system=("systemInstruction", "system_instruction"), thinks=_thinks
    )
    rules = (G1, G2, G3, G5, G6, G7, G9)

    # Recognition

    def matches_message(self, message: Message) -> bool:
        return "parts" in message and "content" not in message

    def matches_body(self, body: Mapping[str, Any]) -> bool:
        return "contents" in body

    # Messages

    def is_agent(self, message: Message) -> bool:
        return message.get("role") == "model"

    def calls_tools(self, message: Message) -> bool:
        parts = map(as_object, as_list(message.get("parts")))
        return any(_either(part, *_CALL) is not None for part in parts)

    def user_message(self, text: str) -> Message:
        return {"role": "user", "parts": [{"text": text}]}

    def step_messages(
        self, call_id: str, name: str, arguments: Mapping[str, Any], result: str
    ) -> list[Message]:
        call = {"id": call_id, "name": name, "args": arguments}
        response = {"id": call_id, "name": name, "response": {"output": result}}
        return [
            {"role": "model", "parts": [{"functionCall": call}]},
            {"role": "user", "parts": [{"functionResponse": response}]},
        ]

    def answer(self, body: Mapping[str, Any]) -> list[Any] | None:
        candidates = body.get("candidates")
        if not isinstance(candidates, list):
            return None
        turn = as_object(as_object(candidates[0] if candidates else None).get("content"))
        return [turn] if isinstance(turn.get("parts"), list) else []

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Message:
        # Under `parameters` Gemini reads a schema language of its own, which refuses
        # `additionalProperties`.
        declared = {"name": name, "description": description, "parametersJsonSchema": schema}
        return {"functionDeclarations": [declared]}

    # Reading

    def system_text(self, system: object) -> str:
        """Return the text of an instruction: a string, parts, or a content that has parts."""
        if isinstance(system, dict):
            parts = system.get("parts")
            system = parts if isinstance(parts, list) else [system]
        return super().system_text(system)

    def read_message(self, message: Message, position: int, counter: TokenCounter) -> ParsedMessage:
        if message.get("role") == "model":
            return _read_model(position, message["parts"], counter)
        return _read_user(position, message["parts"], counter)

    # Writing

    def accepts_marker(self, message: Message) -> bool:
        if message.get("role") == "model":
            return False
        at = _last_response(message["parts"])
        return at < 0 or bool(_text_field(_either(message["parts"][at], *_RESPONSE)))

    def is_user_text(self, message: Message) -> bool:
        return _last_response(message["parts"]) < 0

    def append_text(self, message: Message, text: str) -> Message:
        """Return the content with `text` as a part, or inside its last function response.

        Never as a part next to a function response: Gemini counts the parts of such a turn, and
        takes a turn with text in it for a new question.
        """
        parts = list(message["parts"])
        at = _last_response(parts)
        if at < 0:
            return {**message, "parts": [*parts, {"text": text}]}
        response = _either(parts[at], *_RESPONSE)
        text_field = _text_field(response)
        fields = as_object(response.get("response"))
        before = fields.get(text_field)
        fields = {**fields, text_field: f"{before}{GAP}{text}" if before else text}
        parts[at] = _with_response(parts[at], {**response, "response": fields})
        return {**message, "parts": parts}

    def result_count(self, message: Message) -> int:
        return sum(_either(part, *_RESPONSE) is not None for part in message["parts"]) or 1

    def replace_results(self, message: Message, notes: list[str]) -> Message:
        if _last_response(message["parts"]) < 0:
            # The observation of an agent that acts by text: the whole content is the result.
            return {**message, "parts": [{"text": notes[0]}]}
        texts = iter(notes)
        parts: list[Message] = []
        for part in message["parts"]:
            response = _either(part, *_RESPONSE)
            if response is not None:
                text_field = _text_field(response) or _TEXT_FIELDS[0]
                fields = {key: value for key, value in response.items() if key != "parts"}
                part = _with_response(part, {**fields, "response": {text_field: next(texts)}})
            parts.append(part)
        return {**message, "parts": parts}

    # Checking

    def check(self, request: Request, before: object) -> Iterator[RuleViolation]:
        messages = list_of_messages(request.messages, "contents")
        previous: _Turn | None = None
        for n, message in enumerate(messages):
            turn = _read_turn(n, message)
            yield from _check_order(n, turn, previous)
            previous = turn
        if previous is not None and previous.by_model:
            yield G5.at(len(messages) - 1)
        if isinstance(before, list):
            known = {one for message in before for one in _signed(as_object(message))}
            for n, message in enumerate(messages):
                if not known.issuperset(_signed(message)):
                    yield G9.at(n)


def _either(part: Message, camel: str, snake: str) -> Any:
    value = part.get(camel)
    return part.get(snake) if value is None else value


def _with_response(part: Message, response: Message) -> Message:
    camel, snake = _RESPONSE
    return {**part, snake if part.get(camel) is None else camel: response}


def _last_response(parts: list[Message]) -> int:
    for at in range(len(parts) - 1, -1, -1):
        if _either(parts[at], *_RESPONSE) is not None:
            return at
    return -1


def _text_field(response: Message) -> str:
    """Return the field of a response that holds its text, or could; empty if none can."""
    fields = as_object(response.get("response"))
    for name in _TEXT_FIELDS:
        if isinstance(fields.get(name), str):
            return name
    return next((name for name in ("output", "note") if name not in fields), "")


def _read_model(position: int, parts: list[Message], counter: TokenCounter) -> ParsedMessage:
    tokens = MESSAGE_TOKENS
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[tuple[str, Call]] = []
    keep_reason = ""
    for part in parts:
        tokens += sealed_tokens(_either(part, *_SIGNATURE))
        function = _either(part, *_CALL)
        text = part.get("text")
        if function is not None:
            call = Call(str(function.get("name") or "tool"), to_json(function.get("args") or {}))
            calls.append((_call_id(position, len(calls)), call))
            tokens += CALL_TOKENS + counter.count(call.name) + counter.count(call.arguments)
        elif isinstance(text, str):
            (thoughts if part.get("thought") else texts).append(text)
            tokens += counter.count(text)
        else:
            tokens += _other_tokens(part, counter)
            keep_reason = keep_reason or _unknown_content(part)
    return ParsedMessage(
        MessageRole.AGENT,
        tokens,
        "\n".join(texts),
        "\n".join(thoughts),
        tuple(calls),
        keep_reason=keep_reason,
    )


def _read_user(position: int, parts: list[Message], counter: TokenCounter) -> ParsedMessage:
    tokens, user_tokens = MESSAGE_TOKENS, 0
    results: list[tuple[str, bool]] = []
    others: list[Message] = []
    for part in parts:
        response = _either(part, *_RESPONSE)
        if response is None:
            others.append(part)
            if not isinstance(part.get("text"), str):
                user_tokens += _other_tokens(part, counter)
        else:
            text, cost = _read_response(response, counter)
            results.append((text, False))
            tokens += cost
    # A call may have no id, since the next turn answers all calls of a turn.
    answers = tuple(_call_id(position - 1, m) for m in range(len(results)))
    return message_of_user(others, results, answers, tokens, user_tokens, counter)


def _read_response(response: Message, counter: TokenCounter) -> tuple[str, int]:
    """Return a function's result as text, and its tokens."""
    fields = as_object(response.get("response"))
    text_field = _text_field(response)
    text = fields.get(text_field, "")
    rest = {key: value for key, value in fields.items() if key != text_field}
    tokens = counter.count(text)
    tokens += sum(_other_tokens(part, counter) for part in response.get("parts") or ())
    if not rest:
        return text, tokens
    # Counted apart, so that a marker added to the text has the same tokens as alone.
    more = to_json(rest)
    return f"{text}\n{more}" if text else more, tokens + counter.count(more)


def _call_id(turn: int, number: int) -> str:
    return f"{turn}.{number}"


def _other_tokens(part: Message, counter: TokenCounter) -> int:
    for name in _MEDIA:
        media = part.get(name)
        if media is not None:
            kind = str(_either(as_object(media), "mimeType", "mime_type"))
            return IMAGE_TOKENS if kind.startswith("image/") else FILE_TOKENS
    content = {key: value for key, value in part.items() if key not in _ABOUT and value is not None}
    return counter.count(to_json(content)) if content else 0


def _unknown_content(part: Message) -> str:
    for key, value in part.items():
        if value is not None and key not in _CONTENT and key not in _ABOUT:
            return f"holds a {key} part"
    return ""


@dataclass(slots=True)
class _Turn:
    """The facts that the order of contents depends on."""

    by_model: bool
    calls: int = 0
    responses: int = 0
    violations: list[RuleViolation] = field(default_factory=list)


def _read_turn(n: int, item: object) -> _Turn:
    message = object_at(item, n, "contents[{n}]")
    role = message.get("role")
    if role not in _ROLES:
        raise ShapeError(n, "contents[{n}].role", role, "one of user, model, function")
    turn = _Turn(by_model=role == "model")
    parts = message.get("parts")
    if not parts or not isinstance(parts, list):
        raise ShapeError(n, "contents[{n}].parts", parts, "an array of parts")
    for part in blocks_at(parts, n, "contents[{n}].parts"):
        call, response = _either(part, *_CALL), _either(part, *_RESPONSE)
        if call is not None:
            turn.calls += 1
            _check_function(n, call, "args")
            if not turn.by_model:
                raise ShapeError(n, "contents[{n}].role", role, "model, for a function call,")
        elif response is not None:
            turn.responses += 1
            _check_function(n, response, "response")
            if turn.by_model:
                raise ShapeError(n, "contents[{n}].role", role, "user, for a function response,")
        elif part.get("text") == "" and not _either(part, *_SIGNATURE):
            # A signature may come alone: streamed answers end with an empty text that carries it.
            turn.violations.append(G7.at(n))
    return turn


def _check_function(n: int, value: object, inner: str) -> None:
    """Check that `value` is an object, and that its field `inner` is one if present."""
    function = object_at(value, n, "contents[{n}].parts")
    if function.get(inner) is not None:
        object_at(function[inner], n, "contents[{n}].parts")
    if function.get("parts") is not None:
        blocks_at(function["parts"], n, "contents[{n}].parts")


def _check_order(n: int, turn: _Turn, previous: _Turn | None) -> Iterator[RuleViolation]:
    yield from turn.violations
    if turn.calls and (previous is None or previous.by_model):
        yield G1.at(n)
    calls = previous.calls if previous else 0
    if turn.responses and not calls:
        yield G2.at(n)
    elif turn.responses != calls:
        yield G3.at(n)
    if previous is not None and previous.by_model == turn.by_model:
        yield G6.at(n)


def _signed(message: Message) -> list[tuple[object, ...]]:
    """Return the fields of each signed part that must not change."""
    signed: list[tuple[object, ...]] = []
    for part in map(as_object, as_list(message.get("parts"))):
        signature = _either(part, *_SIGNATURE)
        if isinstance(signature, str | bytes) and signature:
            name = as_object(_either(part, *_CALL)).get("name")
            texts = (text if isinstance(text, str) else None for text in (part.get("text"), name))
            signed.append((signature, *texts))
    return signed
