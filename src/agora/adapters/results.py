"""The texts of results inside messages, rewritten in place and in any format.

Only what a tool said is reached: never the user's text beside it, images, or what is signed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from agora.adapters.assembly import is_text
from agora.adapters.base import Message, Parsed
from agora.adapters.gemini_contents import RESPONSE
from agora.adapters.openai_responses import TEXT_OUTPUTS

Change = Callable[[str], str]
StepChange = Callable[[int, str], str]
"""Returns the text of a result anew, given the number of its step."""
_TEXTS = frozenset({"text", "input_text", "output_text"})
_ROLES = frozenset({"tool", "function"})


def rewritten(parsed: Parsed, change: StepChange) -> Any:
    """Return the messages with each text of a result changed; the caller's own if none differs."""
    if isinstance(parsed.messages, str):
        # Of an input that is one text and nothing else, all of it is the task.
        return _in_text(parsed, change) if parsed.spans else parsed.messages
    written = []
    for message, owner in zip(parsed.messages, parsed.owners, strict=True):
        written.append(_in_message(message, partial(change, -owner)) if owner < 0 else message)
    same = all(new is old for new, old in zip(written, parsed.messages, strict=True))
    return parsed.messages if same else written


def _in_text(parsed: Parsed, change: StepChange) -> str:
    text: str = parsed.messages
    pieces: list[str] = []
    blocks = zip(parsed.owners, parsed.spans, parsed.observed, strict=True)
    for number, (start, end), observed in blocks:
        seen = text[observed:end]
        pieces += [text[start:observed], change(number, seen) if number else seen]
    return "".join(pieces)


def _in_message(message: Message, change: Change) -> Message:
    """Return a message that carries results with their texts changed."""
    if "parts" in message:
        return _with(message, "parts", [_in_part(part, change) for part in message["parts"]])
    if message.get("type") in TEXT_OUTPUTS:
        return _with(message, "output", _in_content(message.get("output"), change))
    content = message.get("content")
    if (
        isinstance(content, list)
        and message.get("role") not in _ROLES
        and any(map(_is_result, content))
    ):
        return _with(message, "content", [_in_block(block, change) for block in content])
    # A tool's message, or what an agent that acts by text observed: all of it is the result.
    return _with(message, "content", _in_content(content, change))


def _is_result(block: object) -> bool:
    return isinstance(block, dict) and (block.get("type") == "tool_result" or "toolResult" in block)


def _in_block(block: Any, change: Change) -> Any:
    if not _is_result(block):
        return block
    if "toolResult" in block:
        result = block["toolResult"]
        changed = _with(result, "content", _in_content(result.get("content"), change))
        return _with(block, "toolResult", changed)
    return _with(block, "content", _in_content(block.get("content"), change))


def _in_part(part: Any, change: Change) -> Any:
    for name in RESPONSE:
        response = part.get(name)
        said = response.get("response") if isinstance(response, dict) else None
        if isinstance(said, dict):
            new = {k: change(v) if isinstance(v, str) else v for k, v in said.items()}
            return _with(part, name, _with(response, "response", new))
    return part


def _in_content(content: Any, change: Change) -> Any:
    if isinstance(content, str):
        return change(content)
    if not isinstance(content, list):
        return content
    return [
        _with(part, "text", change(part["text"])) if _is_text(part) else part for part in content
    ]


def _is_text(part: Any) -> bool:
    return is_text(part) and part.get("type", "text") in _TEXTS


def _with(value: Message, field: str, new: Any) -> Message:
    """Return a value with a field changed, itself where that is the same."""
    return value if value.get(field) == new else {**value, field: new}
