"""LangChain and LangGraph: what the model is sent is compressed, what the graph keeps is not."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, with_text
from agora.integrations.wire import Message, call, text_part

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError as error:
    raise MissingExtraError(__name__, "langchain") from error

_ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


class AgoraMiddleware(AgentMiddleware):
    """Middleware for `create_agent`: each model call gets the compressed messages.

    The agent's state is read and never written, so nothing of the edit is kept in it or in a
    checkpoint.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        super().__init__()
        self._compressor = compressor or Compressor()
        self._open = FailOpen(logging.getLogger(__name__))

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Call the model with the compressed messages."""
        return handler(self._open(lambda: self._edited(request), request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        """Call the model with the compressed messages; scoring runs in a thread."""
        edited = await asyncio.to_thread(self._open, lambda: self._edited(request), request)
        return await handler(edited)

    def _edited(self, request: ModelRequest) -> ModelRequest:
        model = request.model
        if getattr(model, "use_previous_response_id", False):
            return request  # The provider keeps part of the messages itself.
        messages = shorten(
            self._compressor,
            request.messages,
            model=getattr(model, "model_name", None) or getattr(model, "model", None),
            system=request.system_prompt,
            tools=[convert_to_openai_tool(tool) for tool in request.tools],
            format=_format(model),
            thinking=_is_on(getattr(model, "thinking", None)),
        )
        return request if messages is None else request.override(messages=messages)


class AgoraEdit:
    """An edit for `ContextEditingMiddleware`, alongside its own; `model` is for the prices."""

    def __init__(self, compressor: Compressor | None = None, *, model: str | None = None) -> None:
        self._compressor = compressor or Compressor()
        self._model = model
        self._open = FailOpen(logging.getLogger(__name__))

    def apply(self, messages: list[Any], *, count_tokens: Any) -> None:  # noqa: ARG002
        """Compress `messages` in place: the middleware hands over a copy for that."""
        edited = self._open(lambda: shorten(self._compressor, messages, model=self._model), None)
        if edited is not None:
            messages[:] = edited


def shorten(
    compressor: Compressor, messages: Sequence[BaseMessage], **options: Any
) -> list[BaseMessage] | None:
    """Return the messages to send, for a graph's own node, or None when nothing is elided.

    Unlike the two classes it lets errors out. `options` is what `compress_chat` takes.
    """
    chat = [_chat(message) for message in messages]
    compressed = compress_chat(compressor, chat, **options)
    return None if compressed is None else compressed.rebuild(messages, _edit)


def _chat(message: BaseMessage) -> Message:
    content = message.content
    chat: Message = {"role": _ROLES[message.type], "content": content}
    if isinstance(message, ToolMessage):
        chat["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage):
        blocks = [text_part(content)] if isinstance(content, str) else content
        chat["content"] = [b for b in blocks if b.get("type") == "text" and b["text"]]
        chat["thoughts"] = [b for b in blocks if b.get("type") in _THOUGHTS]
        calls = [(c["id"], c["name"], json.dumps(c["args"])) for c in message.tool_calls]
        calls += [(c["id"], c["name"], c["args"]) for c in message.invalid_tool_calls]
        if calls:
            chat["tool_calls"] = [call(*made) for made in calls]
    return chat


def _edit(message: BaseMessage, kept: Kept) -> list[BaseMessage]:
    if kept.how == "after":
        return [HumanMessage("\n\n".join(kept.texts))]
    return [message.model_copy(update={"content": with_text(message.content, kept)})]


def _format(model: Any) -> str:
    if "anthropic" in model._llm_type:
        return "anthropic"
    return "responses" if getattr(model, "use_responses_api", None) else "openai"


def _is_on(thinking: object) -> bool | None:
    return thinking.get("type") != "disabled" if isinstance(thinking, dict) else None
