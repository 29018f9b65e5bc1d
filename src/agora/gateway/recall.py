"""Recall over the gateway: the tool is offered with each request and answered in the next one.

The call goes through to the client like any other, so no answer is held back or rewritten, and
other calls next to it lose nothing. The client does not know the tool and answers that; what it
answers is replaced here, in every later request, by the step in full. The step is read out of the
request itself, so that nothing has to be kept, and the same history gives the same bytes.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agora.adapters import recall_tool
from agora.adapters.recall import offers_recall
from agora.core.recall import TOOL_NAME
from agora.core.trajectory import Trajectory
from agora.errors import RecallError
from agora.gateway.body import encode, fields, insert


def passes_recall(agent: str, known: Sequence[str]) -> bool:
    """Tell whether recall works with an agent, by how its User-Agent begins; "*" stands for all.

    >>> passes_recall("claude-cli/2.1.0 (external, cli)", ("claude-cli/",))
    True
    >>> passes_recall("opencode/1.18.34", ("claude-cli/",))
    False
    """
    return "*" in known or agent.startswith(tuple(known))


def offered(tools: Any, format: str) -> Any:
    """Return the tools with the recall tool behind them; the same object if it is there already.

    A request without tools gets none: its model may not be able to call any. Nor does one of
    Gemini or Bedrock, whose answers to a recall are not written here yet.
    """
    if format in ("gemini", "bedrock"):
        return tools
    if not isinstance(tools, list) or not tools or offers_recall(tools):
        return tools
    return [*tools, recall_tool(format)]


def put_tools(body: bytes, tools: Sequence[Any]) -> bytes:
    """Return the body with the last of `tools` added behind those that it has."""
    spans = fields(body)
    if spans is None or "tools" not in spans:
        return body
    start, end = spans["tools"]
    inside = body[start : end - 1].rstrip(b" \t\n\r")
    return insert(body, spans, [("tools", inside + b"," + encode(tools[-1]) + body[end - 1 : end])])


def answered(messages: Sequence[Any], format: str, trajectory: Trajectory) -> list[Any]:
    """Return the messages with each answer to a recall replaced by the step that was asked for."""
    asked = _asked(messages, format)
    if not asked:
        return list(messages)
    texts = {call: _text(trajectory, number) for call, number in asked.items()}
    return [_answer(message, format, texts) for message in messages]


def _text(trajectory: Trajectory, number: object) -> str:
    try:
        return trajectory.recall(number)
    except RecallError as error:
        return str(error)


def _asked(messages: Sequence[Any], format: str) -> dict[str, object]:
    """Return what each call of the recall tool asks for, by the call's id."""
    asked: dict[str, object] = {}
    for message in messages:
        if format == "openai":
            for call in message.get("tool_calls") or ():
                function = call.get("function") or {}
                if function.get("name") == TOOL_NAME:
                    asked[str(call.get("id"))] = _number(function.get("arguments"))
        elif format == "responses":
            if message.get("type") == "function_call" and message.get("name") == TOOL_NAME:
                asked[str(message.get("call_id"))] = _number(message.get("arguments"))
        elif (
            format == "anthropic"
            and message.get("role") == "assistant"
            and isinstance(message.get("content"), list)
        ):
            for block in message["content"]:
                if block.get("type") == "tool_use" and block.get("name") == TOOL_NAME:
                    asked[str(block.get("id"))] = _step(block.get("input"))
    return asked


def _number(arguments: object) -> object:
    try:
        return _step(json.loads(arguments)) if isinstance(arguments, str) else None
    except (ValueError, RecursionError):
        return None


def _step(arguments: object) -> object:
    return arguments.get("step") if isinstance(arguments, dict) else None


def _answer(message: Any, format: str, texts: Mapping[str, str]) -> Any:
    if format == "openai":
        text = texts.get(str(message.get("tool_call_id")))
        return message if text is None else {**message, "content": text}
    if format == "responses":
        if message.get("type") != "function_call_output":
            return message
        text = texts.get(str(message.get("call_id")))
        return message if text is None else {**message, "output": text}
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, list):
        return message
    blocks = [_answer_block(block, texts) for block in content]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return message
    return {**message, "content": blocks}


def _answer_block(block: Any, texts: Mapping[str, str]) -> Any:
    if not isinstance(block, dict) or block.get("type") != "tool_result":
        return block
    text = texts.get(str(block.get("tool_use_id")))
    if text is None:
        return block
    # The client called it an error; with the step in place it is none.
    return {**{k: v for k, v in block.items() if k != "is_error"}, "content": text}
