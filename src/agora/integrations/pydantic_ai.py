"""Pydantic AI: a capability that shortens model requests; the run's history stays whole."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agora.compressor import Compressor
from agora.core.binding import binds
from agora.core.compression import Compression
from agora.errors import MissingExtraError
from agora.integrations.base import Shortener
from agora.integrations.chat import (
    Message,
    assistant,
    call_part,
    edited_content,
    edited_text,
    image_part,
    loses_thinking,
    rebuilt,
    text_part,
    thinking_part,
    tool_part,
)

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
except ImportError as error:
    raise MissingExtraError(__name__, "pydantic-ai") from error


class Agora(AbstractCapability[Any]):
    """A capability for `Agent(capabilities=[Agora()])`.

    It edits only the requests to the model: `all_messages()` keeps everything. `agora.savings` of
    the capability returns the dollars and tokens that it saved.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        self._shortener = Shortener(compressor)
        self.agora_ledger = self._shortener.ledger

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:  # noqa: ARG002
        """Ask the model with the shorter messages; the choice is made in a thread."""
        request, compression = await asyncio.to_thread(
            self._shortener.attempt, lambda: self._edited(request_context), (request_context, None)
        )
        response = await handler(request)
        if compression is not None:
            usage = response.usage
            # Pydantic AI counts the cached tokens within the input, for every provider.
            details = {
                "cached_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            }
            counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
            counts["input_tokens_details"] = details
            name = _model_name(request.model)
            self._shortener.answered(compression, counts, name, answer=[_chat(response)])
        return response

    def _edited(self, request: Any) -> tuple[Any, Compression | None]:
        settings = request.model_settings or {}
        if settings.get("openai_previous_response_id") or settings.get("openai_conversation_id"):
            return request, None  # The provider keeps part of the messages itself.
        # In the model's own version: a model may change the schemas of tools.
        _, asked = request.model.prepare_request(settings, request.model_request_parameters)
        tools = (*asked.function_tools, *asked.output_tools)
        messages, compression = shorten(
            self._shortener,
            request.messages,
            model=_model_name(request.model),
            system="\n\n".join(part.content for part in asked.instruction_parts or ()) or None,
            tools=[tool_part(t.name, t.description, t.parameters_json_schema) for t in tools]
            or None,
        )
        return replace(request, messages=messages), compression


def shorten(
    shortener: Shortener, messages: Sequence[ModelMessage], **options: Any
) -> tuple[list[ModelMessage], Compression]:
    """Return the messages to send and the account; `options` are those of `compress`."""
    # Each part of a request is a chat message of its own, each response is one.
    owners: list[int] = []
    parts: list[Any] = []
    for at, message in enumerate(messages):
        pieces = message.parts if isinstance(message, ModelRequest) else [message]
        owners += [at] * len(pieces)
        parts += pieces
    chat = [_chat(part) for part in parts]
    compression = shortener.shorten(chat, format="openai", **options)
    if not compression.changed:
        return list(messages), compression
    sent: dict[int, list[Any]] = {}
    pieces = rebuilt(parts, chat, compression, _edit)
    for at, piece in zip(compression.positions, pieces, strict=True):
        sent.setdefault(owners[at], []).append(piece)
    return [
        pieces[0] if isinstance(pieces[0], ModelResponse) else replace(messages[at], parts=pieces)
        for at, pieces in sent.items()
    ], compression


def _chat(part: Any) -> Message:
    if isinstance(part, ModelResponse):
        said = [piece.content for piece in part.parts if piece.part_kind == "text"]
        thoughts = [thinking_part(p.content, p.signature) for p in part.parts if _is_signed(p)]
        calls = [
            call_part(p.tool_call_id, p.tool_name, p.args_as_json_str())
            for p in part.parts
            if p.part_kind == "tool-call"
        ]
        return assistant("\n\n".join(said), calls, thoughts)
    kind, content = part.part_kind, _content(part)
    if kind in ("tool-return", "retry-prompt") and part.tool_name:
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
    if not isinstance(content, str):
        content = [text_part(item) if isinstance(item, str) else image_part() for item in content]
    return {"role": "system" if kind == "system-prompt" else "user", "content": content}


def _content(part: Any) -> Any:
    if part.part_kind == "tool-return":
        return part.model_response_str()
    return part.model_response() if part.part_kind == "retry-prompt" else part.content


def _edit(part: Any, old: Message, new: Message) -> Any:
    if isinstance(part, ModelResponse):
        text = edited_text(old, new)[1]
        bare = loses_thinking(old, new)
        pieces = [piece for piece in part.parts if not (bare and _is_signed(piece))]
        return replace(part, parts=[*pieces, TextPart(text)] if text else pieces)
    return replace(part, content=edited_content(_content(part), old, new, str))


def _is_signed(piece: Any) -> bool:
    return piece.part_kind == "thinking" and bool(piece.signature)


def _model_name(model: Any) -> str | None:
    """Return the model's name; of several in turn, the name of one that binds thinking, if any."""
    while hasattr(model, "wrapped"):
        model = model.wrapped
    names = [_model_name(each) for each in getattr(model, "models", ())]
    return next(filter(binds, names), None) or getattr(model, "model_name", None)
