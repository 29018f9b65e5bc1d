"""LangChain and LangGraph: the model is sent shorter messages, the graph's state keeps all."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.errors import MissingExtraError
from agora.integrations.base import Shortener
from agora.integrations.chat import (
    Message,
    assistant,
    call_part,
    edited_content,
    loses_thinking,
    rebuilt,
    text_part,
    thinking_part,
)

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError as error:
    raise MissingExtraError(__name__, "langchain") from error

_ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
_ASIDE = ("thinking_blocks", "reasoning_details")
"""The fields beside the content in which LiteLLM and OpenRouter keep signed thinking."""


class AgoraMiddleware(AgentMiddleware):
    """Middleware for `create_agent`: each model call is sent the shorter messages.

    `agora.savings(middleware)` returns the dollars and tokens that it saved.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        super().__init__()
        self._shortener = Shortener(compressor)
        self.agora_ledger = self._shortener.ledger

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Call the model with the shorter messages."""
        shorter, compression = self._shortened(request)
        return self._counted(handler(shorter), request, compression)

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        """Call the model with the shorter messages; the choice is made in a thread."""
        shorter, compression = await asyncio.to_thread(self._shortened, request)
        return self._counted(await handler(shorter), request, compression)

    def _shortened(self, request: ModelRequest) -> tuple[ModelRequest, Compression | None]:
        shorter = self._shortener.attempt(lambda: self._edited(request), None)
        return shorter or (request, None)

    def _edited(self, request: ModelRequest) -> tuple[ModelRequest, Compression | None]:
        if getattr(request.model, "use_previous_response_id", False):
            return request, None  # The provider keeps part of the messages itself.
        messages, compression = shorten(
            self._shortener,
            request.messages,
            model=_model(request.model),
            system=request.system_prompt or None,
            tools=[convert_to_openai_tool(tool) for tool in request.tools] or None,
        )
        return request.override(messages=messages) if compression.changed else request, compression

    def _counted(self, response: Any, request: ModelRequest, compression: Any) -> Any:
        answers = [m for m in getattr(response, "result", ()) if isinstance(m, AIMessage)]
        if compression is not None and answers:
            usage, answer = answers[-1].usage_metadata, [_chat(answers[-1])]
            self._shortener.answered(compression, usage, _model(request.model), answer=answer)
        return response


def shorten(
    shortener: Shortener, messages: Sequence[BaseMessage], **options: Any
) -> tuple[list[BaseMessage], Compression]:
    """Return the messages to send and the account of them, for a graph's own node.

    A graph has one `shortener`; `options` are those of `Compressor.compress`, such as `model`.
    """
    chat = [_chat(message) for message in messages]
    compression = shortener.shorten(chat, format="openai", **options)
    if not compression.changed:
        return list(messages), compression
    return rebuilt(messages, chat, compression, _edit), compression


def _chat(message: BaseMessage) -> Message:
    chat: Message = {"role": _ROLES[message.type], "content": message.content}
    if isinstance(message, ToolMessage):
        chat["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage):
        blocks = message.content if isinstance(message.content, list) else []
        if blocks:
            texts = [b if isinstance(b, str) else _text(b) for b in blocks]
            chat["content"] = [text_part(text) for text in texts if text]
        aside = [block for name in _ASIDE for block in message.additional_kwargs.get(name) or ()]
        thoughts = [thought for block in (*blocks, *aside) if (thought := _thought(block))]
        calls = [call_part(c["id"], c["name"], c["args"]) for c in message.tool_calls]
        calls += [
            call_part(c["id"], c["name"] or "", c["args"] or "") for c in message.invalid_tool_calls
        ]
        return assistant(chat["content"], calls, thoughts)
    return chat


def _edit(message: BaseMessage, old: Message, new: Message) -> BaseMessage:
    content: Any = message.content
    aside = message.additional_kwargs
    if loses_thinking(old, new):
        if isinstance(content, list):
            content = [block for block in content if not _thought(block)]
        aside = {name: value for name, value in aside.items() if name not in _ASIDE}
    content = edited_content(content, old, new, text_part)
    return message.model_copy(update={"content": content, "additional_kwargs": aside})


def _text(block: Message) -> str:
    return block["text"] if block.get("type") == "text" else ""


def _thought(block: Any) -> Message | None:
    """Return a block of signed thinking in Anthropic's form, or None for any other block."""
    block = block if isinstance(block, dict) else {}
    block = block.get("value") if block.get("type") == "non_standard" else block
    inner = block.get("reasoning_content") or block
    sealed = inner.get("data") or inner.get("redacted_content") or inner.get("redactedContent")
    kinds = ("thinking", "redacted_thinking", "reasoning", "reasoning_content", "reasoning.text")
    signature = inner.get("signature") or (inner.get("extras") or {}).get("signature") or sealed
    if block.get("type") not in kinds or not signature:
        return None
    text = inner.get("thinking") or inner.get("reasoning") or inner.get("text") or ""
    return thinking_part(str(text), str(signature))


def _model(model: Any) -> str | None:
    names = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
    return next((name for name in names if isinstance(name, str) and name), None)
