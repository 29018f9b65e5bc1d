"""Legal histories of OpenAI chat completions."""

import json
from typing import Any

from agora.adapters.recall import recall_tool
from agora.core.recall import TOOL_NAME
from agora.testing.draft import Draft
from agora.testing.pen import Pen
from agora.testing.write_spoken import write_spoken

Message = dict[str, Any]

_TOOL = {
    "type": "function",
    "function": {"name": "search", "parameters": {"type": "object", "properties": {}}},
}
_NAMES = ("search", "get_reservation", "read_file", "工具", "think")


def write(pen: Pen, max_steps: int) -> Draft:
    """Return a history as a pen writes it."""
    draft = Draft()
    if pen.sometimes():
        draft.tools = [_TOOL, recall_tool("openai")] if pen.often() else [_TOOL]
    steps = pen.below(max_steps + 1)
    if pen.often():
        draft.put({"role": pen.pick(("system", "developer")), "content": _text(pen, pen.words())})
        if pen.rarely():
            draft.put({"role": "system", "content": pen.words()})
    if pen.rarely():
        draft.put({"role": "assistant", "content": "How can I help?"})
    draft.put({"role": "user", "content": _asked(pen)})
    if pen.below(8) == 7:
        write_spoken(draft, pen, steps, user=_user, agent=_agent)
        return draft
    draft.called()
    same_ids = pen.rarely()
    for number in range(steps):
        _between(draft, pen)
        if pen.rarely():
            _legacy_step(draft, pen)
        else:
            _step(draft, pen, "" if same_ids else f"{number}_")
        draft.called()
    _end(draft, pen)
    return draft


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _agent(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _text(pen: Pen, text: str) -> object:
    """Return the same text as a string or as parts."""
    if pen.sometimes():
        return [{"type": "text", "text": text}]
    return text


def _asked(pen: Pen) -> object:
    text = pen.words()
    how = pen.below(16)
    if how < 12:
        return text
    media: Message = (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file_1"}},
        {"type": "text", "text": ""},
    )[how - 12]
    return [{"type": "text", "text": text}, media]


def _between(draft: Draft, pen: Pen) -> None:
    """Add what may stand between two steps."""
    what = pen.below(16)
    if what == 15:
        draft.put({"role": "assistant", "content": _text(pen, pen.words())})
        draft.put({"role": "user", "content": _asked(pen)})
        draft.called()
    elif what == 14:
        draft.put({"role": "user", "content": _asked(pen)})
        draft.called()
    elif what == 13:
        draft.put({"role": "assistant", "content": pen.words()})
    elif what == 12:
        draft.put({"role": "system", "content": pen.words()})


def _step(draft: Draft, pen: Pen, prefix: str) -> None:
    message: Message = {"role": "assistant", "content": None}
    if pen.often():
        message["content"] = _text(pen, pen.pick(("", pen.words())))
    if pen.sometimes():
        message["reasoning_content"] = pen.words()
    calls = [_call(draft, pen, f"call_{prefix}{n}") for n in range(pen.pick((1, 1, 1, 2, 2, 3)))]
    message["tool_calls"] = calls
    positions = draft.put(message)
    for call in pen.order(calls):
        result: Message = {"role": "tool", "tool_call_id": call["id"]}
        result["content"] = _text(pen, pen.observation())
        if pen.rarely():
            result["name"] = "search"
        positions += draft.put(result)
    draft.closed.append(tuple(positions))


def _call(draft: Draft, pen: Pen, call_id: str) -> Message:
    how = pen.below(16)
    if how == 15:
        return {"id": call_id, "type": "custom", "custom": {"name": "sh", "input": pen.words()}}
    if how == 14:
        function = {"name": TOOL_NAME, "arguments": json.dumps(draft.recall_arguments(pen))}
    elif how == 13:
        function = {"name": "broken", "arguments": '{"half'}
    else:
        arguments = json.dumps(pen.arguments(), ensure_ascii=pen.often())
        function = {"name": pen.pick(_NAMES), "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _legacy_step(draft: Draft, pen: Pen) -> None:
    call = {"name": "look", "arguments": json.dumps(pen.arguments())}
    seen = pen.observation()
    positions = draft.put(
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "look", "content": seen or None},
    )
    draft.closed.append(tuple(positions))


def _end(draft: Draft, pen: Pen) -> None:
    what = pen.below(16)
    if what == 15:
        draft.put({"role": "assistant", "content": pen.words()})
    elif what == 14:
        draft.put({"role": "user", "content": _asked(pen)})
        draft.called()
