"""Gemini `contents`: turns made of parts, where the turn after a function call answers it."""

import json
from collections.abc import Mapping
from typing import Any

from agora.adapters.assembly import Assembly, Kind, Reading, is_text, texts_of
from agora.adapters.base import Message, Parsed, Rendered
from agora.adapters.rendering import GAP, render_messages
from agora.adapters.spoken import mark_observations
from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.request import Request
from agora.core.tokens import (
    CALL_TOKENS,
    FILE_TOKENS,
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    TokenCounter,
)
from agora.core.trajectory import Call

# Every field has two spellings: the API's own, and the one the Python SDK dumps.
_CALL = ("functionCall", "function_call")
RESPONSE = ("functionResponse", "function_response")
_SIGNATURE = ("thoughtSignature", "thought_signature")
_MEDIA = ("inlineData", "inline_data", "fileData", "file_data")
_KNOWN = frozenset(
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
"""Fields that say something about a part and are no content of it."""
_TEXT_FIELDS = ("output", "result", "error", "content", "note")
"""Where tools put their text: Gemini CLI in `output`, ADK and LangChain in `result`."""


class GeminiContents:
    """Reads and writes `contents` of `generateContent`."""

    name = "gemini"

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        """Return the trajectory in the request."""
        messages = request.messages
        fixed = counter.count(json.dumps(request.tools)) if request.tools else 0
        fixed += counter.count(_instruction(request.system))
        assembly = Assembly(fixed_tokens=fixed, mask=False)
        readings = [_read(n, content, counter) for n, content in enumerate(messages)]
        mark_observations(readings, request.observations, _instruction(request.system))
        for reading in readings:
            assembly.add(reading)
        return assembly.parsed(request)

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the contents without the elided steps."""
        return render_messages(parsed, forms, markers, self)

    def holds(self, message: Message) -> bool:
        """Tell whether a marker can be attached to this content."""
        if message.get("role") == "model":
            return False
        at = _last_response(message["parts"])
        return at < 0 or bool(_text_field(_either(message["parts"][at], *RESPONSE)))

    def speaks(self, message: Message) -> bool:
        """Tell whether a marker attached here stands among the user's words."""
        return _last_response(message["parts"]) < 0

    def attach(self, message: Message, text: str) -> Message:
        """Return the content with `text` added: as a part, or inside the last function response.

        Never as a part next to a function response: Gemini counts the parts
        of such a turn, and takes a turn with text in it for a new question.
        """
        parts = list(message["parts"])
        at = _last_response(parts)
        if at < 0:
            return {**message, "parts": [*parts, {"text": text}]}
        response = _either(parts[at], *RESPONSE)
        field = _text_field(response)
        said = _object(response.get("response"))
        before = said.get(field)
        said = {**said, field: f"{before}{GAP}{text}" if before else text}
        parts[at] = {**parts[at], _spelled(parts[at], *RESPONSE): {**response, "response": said}}
        return {**message, "parts": parts}

    def results(self, message: Message) -> int:
        """Return how many function responses a content carries; 1 where all of it is a result."""
        return sum(_either(part, *RESPONSE) is not None for part in message["parts"]) or 1

    def note(self, message: Message, notes: list[str]) -> Message:
        """Return the content with a note for what each function response says."""
        if _last_response(message["parts"]) < 0:
            # What an agent that acts by text observed: the whole content is the result.
            return {**message, "parts": [{"text": notes[0]}]}
        texts = iter(notes)
        parts: list[Message] = []
        for part in message["parts"]:
            response = _either(part, *RESPONSE)
            if response is not None:
                field = _text_field(response) or _TEXT_FIELDS[0]
                kept = {key: value for key, value in response.items() if key != "parts"}
                noted = {**kept, "response": {field: next(texts)}}
                part = {**part, _spelled(part, *RESPONSE): noted}
            parts.append(part)
        return {**message, "parts": parts}


def _either(part: Message, camel: str, snake: str) -> Any:
    found = part.get(camel)
    return part.get(snake) if found is None else found


def _spelled(part: Message, camel: str, snake: str) -> str:
    return snake if part.get(camel) is None else camel


def _object(value: object) -> Message:
    return value if isinstance(value, dict) else {}


def _last_response(parts: list[Message]) -> int:
    for at in range(len(parts) - 1, -1, -1):
        if _either(parts[at], *RESPONSE) is not None:
            return at
    return -1


def _text_field(response: Message) -> str:
    """Return the field of a response that holds its text, or one that could; empty if none can."""
    said = _object(response.get("response"))
    for field in _TEXT_FIELDS:
        if isinstance(said.get(field), str):
            return field
    return next((field for field in ("output", "note") if field not in said), "")


def _read(n: int, content: Message, counter: TokenCounter) -> Reading:
    if content.get("role") == "model":
        return _read_model(n, content["parts"], counter)
    return _read_user(n, content["parts"], counter)


def _read_model(n: int, parts: list[Message], counter: TokenCounter) -> Reading:
    tokens = MESSAGE_TOKENS
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[tuple[str, Call]] = []
    opaque = ""
    for part in parts:
        tokens += _sealed_tokens(_either(part, *_SIGNATURE))
        call = _either(part, *_CALL)
        text = part.get("text")
        if call is not None:
            arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
            made = Call(str(call.get("name") or "tool"), arguments)
            calls.append((_call_id(n, len(calls)), made))
            tokens += CALL_TOKENS + counter.count(made.name) + counter.count(arguments)
        elif isinstance(text, str):
            (thoughts if part.get("thought") else texts).append(text)
            tokens += counter.count(text)
        else:
            tokens += _other_tokens(part, counter)
            opaque = opaque or _unknown(part)
    return Reading(
        Kind.AGENT,
        tokens,
        "\n".join(texts),
        "\n".join(thoughts),
        tuple(calls),
        opaque=opaque,
    )


def _read_user(n: int, parts: list[Message], counter: TokenCounter) -> Reading:
    tokens, user_tokens = MESSAGE_TOKENS, 0
    observations: list[str] = []
    spoken: list[Message] = []
    for part in parts:
        response = _either(part, *RESPONSE)
        if response is None:
            spoken.append(part)
            if not isinstance(part.get("text"), str):
                user_tokens += _other_tokens(part, counter)
        else:
            text, cost = _read_response(response, counter)
            observations.append(text)
            tokens += cost
    said = texts_of(spoken)
    user_tokens += counter.count(said)
    if not observations:
        mixed = not all(map(is_text, spoken))
        return Reading(Kind.USER, tokens + user_tokens, said, mixed=mixed)
    return Reading(
        Kind.RESULT,
        tokens,
        "\n".join(observations),
        # A call may have no id. It needs none: the turn after it answers all of its turn's calls.
        answers=tuple(_call_id(n - 1, m) for m in range(len(observations))),
        user_text=said if spoken else None,
        user_tokens=user_tokens,
        results=tuple([(text, False) for text in observations]),
    )


def _read_response(response: Message, counter: TokenCounter) -> tuple[str, int]:
    """Return what a function gave back as text, and its tokens."""
    said = _object(response.get("response"))
    field = _text_field(response)
    text = said.get(field, "")
    rest = {key: value for key, value in said.items() if key != field}
    tokens = counter.count(text)
    tokens += sum(_other_tokens(part, counter) for part in response.get("parts") or ())
    if not rest:
        return text, tokens
    # Counted apart, so that a marker added to the text costs what it costs alone.
    more = json.dumps(rest, ensure_ascii=False)
    return f"{text}\n{more}" if text else more, tokens + counter.count(more)


def _call_id(turn: int, number: int) -> str:
    return f"{turn}.{number}"


def _sealed_tokens(signature: object) -> int:
    """Return about what a signature costs: base64 of tokens, or in the SDK the bytes themselves."""
    if isinstance(signature, str):
        return len(signature) * 3 // 16
    return len(signature) // 4 if isinstance(signature, bytes) else 0


def _other_tokens(part: Message, counter: TokenCounter) -> int:
    for name in _MEDIA:
        media = part.get(name)
        if media is not None:
            kind = str(_either(_object(media), "mimeType", "mime_type"))
            return IMAGE_TOKENS if kind.startswith("image/") else FILE_TOKENS
    content = {key: value for key, value in part.items() if key not in _ABOUT and value is not None}
    return counter.count(json.dumps(content, ensure_ascii=False, default=str)) if content else 0


def _unknown(part: Message) -> str:
    for key, value in part.items():
        if value is not None and key not in _KNOWN and key not in _ABOUT:
            return f"holds a {key} part"
    return ""


def _instruction(system: object) -> str:
    """Return the text of a system instruction: a string, parts, or a content that has parts."""
    if isinstance(system, str):
        return system
    if isinstance(system, dict):
        parts = system.get("parts")
        return texts_of(parts if isinstance(parts, list) else [system])
    return texts_of(system) if isinstance(system, list) else ""
