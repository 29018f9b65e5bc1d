"""smolagents: a model that is sent the compressed messages; the agent's memory stays whole.

Step callbacks edit the memory, which is what the agent keeps, replays and plans by.
"""

import ast
import copy
import json
import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeVar

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, with_text
from agora.integrations.wire import Message, call, image_part, text_part

try:
    from smolagents.models import ChatMessage, MessageRole, Model, get_tool_json_schema
except ImportError as error:
    raise MissingExtraError(__name__, "smolagents") from error

M = TypeVar("M", bound=Model)
_ROLES = {MessageRole.TOOL_CALL: "assistant", MessageRole.TOOL_RESPONSE: "tool"}
_CALLING = "Calling tools:\n"  # What smolagents writes before the calls of a step.


def compressed(model: M, compressor: Compressor | None = None) -> M:
    """Return a model like `model`, of its type, for `ToolCallingAgent` or `CodeAgent`."""
    used, fail_open = compressor or Compressor(), FailOpen(logging.getLogger(__name__))

    def edited(own: Any, messages: list[Any], options: dict[str, Any]) -> list[Any]:
        tools = [get_tool_json_schema(tool) for tool in options.get("tools_to_call_from") or ()]
        name = getattr(own, "model_id", None)
        return fail_open(lambda: shorten(used, messages, model=name, tools=tools), messages)

    kind = type(model)

    def generate(self: Any, messages: list[Any], *args: Any, **options: Any) -> Any:
        return kind.generate(self, edited(self, messages, options), *args, **options)

    def generate_stream(self: Any, messages: list[Any], *args: Any, **options: Any) -> Any:
        return kind.generate_stream(self, edited(self, messages, options), *args, **options)

    hooks: dict[str, Any] = {"generate": generate}
    if hasattr(kind, "generate_stream"):
        hooks["generate_stream"] = generate_stream
    wrapped = copy.copy(model)
    wrapped.__class__ = type(kind.__name__, (kind,), hooks)
    return wrapped


def shorten(compressor: Compressor, messages: Sequence[Any], **options: Any) -> list[Any]:
    """Return the messages to send. It lets errors out. `options` is what `compress_chat` takes."""
    own = [m if isinstance(m, ChatMessage) else ChatMessage.from_dict(m) for m in messages]
    roles = [_ROLES.get(m.role, MessageRole(m.role).value) for m in own]
    for at, message in enumerate(own[1:], 1):
        if roles[at - 1] == "assistant" and roles[at] == "user" and not _text(message):
            roles[at] = "tool"  # Images that a step observed come as the user's.
    grouped = groupby(zip(roles, own, strict=True), key=lambda pair: pair[0])
    runs = [(role, [message for _, message in run]) for role, run in grouped]
    chat = [_chat(role, run, number) for number, (role, run) in enumerate(runs)]
    for before, after in zip(chat, [*chat[1:], {"role": ""}], strict=True):
        if after["role"] != "tool":
            before.pop("tool_calls", None)
    compressed = compress_chat(compressor, chat, **options)
    if compressed is None:
        return list(messages)
    return [m for kept in compressed.kept for m in _edit(runs[kept.position][1], kept)]


def _chat(role: str, run: Sequence[ChatMessage], number: int) -> Message:
    if role != "assistant":
        parts = [part for message in run for part in _parts(message)]
        content: Any = [part if "text" in part else image_part() for part in parts]
        if all("text" in part for part in parts):
            content = "\n".join(map(_text, run))
        answers = {"tool_call_id": f"step {number - 1}"} if role == "tool" else {}
        return {"role": role, "content": content, **answers}
    said = [_text(message) for message in run if message.role is MessageRole.ASSISTANT]
    called = [_text(message) for message in run if message.role is MessageRole.TOOL_CALL]
    made = call(f"step {number}", *_named("".join(called).removeprefix(_CALLING)))
    return {"role": role, "content": "\n".join(said), "tool_calls": [made]}


def _named(text: str) -> tuple[str, str]:
    """Return name and arguments of all that a step calls: one text answers the lot."""
    try:
        calls = [made["function"] for made in ast.literal_eval(text)]
        arguments = [made["arguments"] for made in calls]
        only = arguments[0] if len(arguments) == 1 else arguments
        return str(calls[0]["name"]), json.dumps(only, ensure_ascii=False)
    except (ValueError, SyntaxError, LookupError, TypeError, MemoryError, RecursionError):
        return "act", text


def _parts(message: ChatMessage) -> list[Any]:
    content = message.content or ""
    return [text_part(content)] if isinstance(content, str) else content


def _text(message: ChatMessage) -> str:
    return "\n".join(part["text"] for part in _parts(message) if "text" in part)


def _edit(run: list[ChatMessage], kept: Kept) -> list[ChatMessage]:
    if not kept.texts:
        return run
    if kept.how == "replace":
        run = run[:1]
    last, parts = copy.copy(run[-1]), _parts(run[-1])
    if kept.how == "append" and "text" in parts[-1]:
        # Inside the text: some models read a message's first part alone.
        text = "\n\n".join([parts[-1]["text"], *kept.texts])
        last.content = [*parts[:-1], text_part(text)]
    else:
        last.content = with_text(parts, kept)
    return [*run[:-1], last]
