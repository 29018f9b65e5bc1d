"""Pydantic AI: a capability that compresses what a model request carries, and no history."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agora.compressor import Compressor
from agora.core.binding import binds
from agora.errors import MissingExtraError
from agora.formats.anthropic import REMOVED
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, is_bound, with_text
from agora.integrations.wire import Message, call, image_part, text_part, thought, tool

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelResponse,
        TextPart,
        UserPromptPart,
    )
except ImportError as error:
    raise MissingExtraError(__name__, "pydantic-ai") from error


class Agora(AbstractCapability[Any]):
    """A capability for `Agent(capabilities=[Agora()])`.

    It edits only what the model is sent: `all_messages()` keeps everything.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        self._compressor = compressor or Compressor()
        self._open = FailOpen(logging.getLogger(__name__))

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:  # noqa: ARG002
        """Ask the model with the compressed messages; scoring runs in a thread."""
        own = request_context

        def bare() -> Any:
            return replace(own, messages=_without_thinking(own.messages))

        bound = is_bound(self._compressor, _name(own.model))
        return await handler(
            await asyncio.to_thread(
                self._open, lambda: self._edited(own), own, bare if bound else None
            )
        )

    def _edited(self, request: Any) -> Any:
        settings = request.model_settings or {}
        if settings.get("openai_previous_response_id") or settings.get("openai_conversation_id"):
            return request  # The provider keeps part of the messages itself.
        # As the model will send them: it may change schemas on the way.
        _, asked = request.model.prepare_request(settings, request.model_request_parameters)
        messages = shorten(
            self._compressor,
            request.messages,
            request.model,
            system="\n\n".join(part.content for part in asked.instruction_parts or ()) or None,
            tools=[
                tool(t.name, t.description, t.parameters_json_schema, strict=t.strict)
                for t in (*asked.function_tools, *asked.output_tools)
            ],
            thinking=True if settings.get("anthropic_thinking") else None,
        )
        return replace(request, messages=messages)


def shorten(
    compressor: Compressor, messages: Sequence[ModelMessage], model: Any, **options: Any
) -> list[ModelMessage]:
    """Return the messages to send to `model`. Unlike the capability it lets errors out."""
    name, model = _name(model), _served(model)
    format = "responses" if "Responses" in type(model).__name__ else model.system
    format = format if format in ("responses", "anthropic") else "openai"
    # Each part of a request is a message of its own on the wire.
    own = [list(m.parts) if isinstance(m, ModelRequest) else [m] for m in messages]
    runs = [(at, [part]) for at, some in enumerate(own) for part in some]
    chat = [_chat(part, format) for _, (part,) in runs]
    compressed = compress_chat(compressor, chat, format=format, model=name, **options)
    if compressed is None:
        return list(messages)
    stays = compressed.regroup(runs, _edit, lambda run: list(map(_bare, run)))
    return [
        parts[0]
        if isinstance(messages[n], ModelResponse)
        else messages[n]
        if parts == own[n]
        else replace(messages[n], parts=parts)
        for n, parts in stays.items()
    ]


def _served(model: Any) -> Any:
    """Return the model behind wrappers."""
    while hasattr(model, "wrapped"):
        model = model.wrapped
    return model


def _name(model: Any) -> str | None:
    """Return the model's name; of several that take turns, one that binds thinking, if any does."""
    model = _served(model)
    names = [_name(one) for one in getattr(model, "models", ())]
    return next(filter(binds, names), None) or getattr(model, "model_name", None)


def _chat(part: Any, format: str) -> Message:
    if isinstance(part, ModelResponse):
        by_kind: dict[str, list[Any]] = {"text": [], "thinking": [], "tool-call": []}
        for piece in part.parts:
            by_kind.setdefault(piece.part_kind, []).append(piece)
        thoughts = [p for p in by_kind["thinking"] if p.signature]
        return {
            "role": "assistant",
            "content": "\n\n".join(p.content for p in by_kind["text"]),
            "thoughts": [thought(format, p.content, p.signature) for p in thoughts],
            "tool_calls": [
                call(p.tool_call_id, p.tool_name, p.args_as_json_str())
                for p in by_kind["tool-call"]
            ],
        }
    kind, content = part.part_kind, _said(part)
    if kind in ("tool-return", "retry-prompt") and part.tool_name:
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
    if kind == "user-prompt" and not (isinstance(content, str) and format != "anthropic"):
        items = [content] if isinstance(content, str) else content
        content = [text_part(i) if isinstance(i, str) else image_part() for i in items]
    return {"role": "system" if kind == "system-prompt" else "user", "content": content}


def _said(part: Any) -> Any:
    if part.part_kind == "tool-return":
        return part.model_response_str()
    return part.model_response() if part.part_kind == "retry-prompt" else part.content


def _edit(run: list[Any], kept: Kept) -> list[Any]:
    if kept.how == "after":
        return [UserPromptPart("\n\n".join(kept.texts))]
    if isinstance(run[0], ModelResponse):
        return [replace(run[0], parts=[*run[0].parts, *map(TextPart, kept.texts)])]
    return [replace(part, content=with_text(_said(part), kept, str)) for part in run]


def _bare(part: Any) -> Any:
    """Return a response without its signed thinking; whatever has none is the caller's own."""
    if not isinstance(part, ModelResponse):
        return part
    # Unsigned thinking goes out as text, which no model checks.
    parts = [p for p in part.parts if not (p.part_kind == "thinking" and p.signature)]
    return part if len(parts) == len(part.parts) else replace(part, parts=parts)


def _without_thinking(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return messages without signed thinking, where it is not known which of it still holds."""
    out = []
    for message in messages:
        bare = _bare(message)
        emptied = bare is not message and not bare.parts
        out.append(replace(bare, parts=[TextPart(REMOVED)]) if emptied else bare)
    return out
