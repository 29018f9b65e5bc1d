"""Recall over the gateway: the tool is offered with each request and answered in the next one.

The call goes through to the client like any other, so no answer is held back or rewritten, and
other calls next to it lose nothing. The client does not know the tool and answers that; what it
answers is replaced here, in every later request, by the step in full. The step is read out of the
request itself, so that nothing has to be kept, and the same history gives the same bytes.
"""

from collections.abc import Sequence
from typing import Any

from agora.adapters import format_named, recall_tool
from agora.adapters.recall import offers_recall
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

    A request without tools gets none: its model may not be able to call any. Nor does one in a
    format whose answers to a recall are not written yet.
    """
    recall = format_named(format).recall
    if recall is None or recall.asked is None:
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
    recall = format_named(format).recall
    if recall is None or recall.asked is None or recall.answer is None:
        return list(messages)
    asked = dict(call for message in messages for call in recall.asked(message))
    if not asked:
        return list(messages)
    texts = {call: _text(trajectory, number) for call, number in asked.items()}
    return [recall.answer(message, texts) for message in messages]


def _text(trajectory: Trajectory, number: object) -> str:
    try:
        return trajectory.recall(number)
    except RecallError as error:
        return str(error)
