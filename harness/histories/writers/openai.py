"""Legal histories of OpenAI chat completions."""

import json
from typing import Any

from agora.core.recall import TOOL_NAME
from agora.formats import recall_tool
from harness.histories.choices import Choices
from harness.histories.draft import Draft
from harness.histories.writers.spoken import write_spoken

Message = dict[str, Any]

_TOOL = {
    "type": "function",
    "function": {"name": "search", "parameters": {"type": "object", "properties": {}}},
}
_NAMES = ("search", "get_reservation", "read_file", "工具", "think")


def write(choices: Choices, max_steps: int) -> Draft:
    """Return a history as a choices writes it."""
    draft = Draft()
    if choices.sometimes():
        draft.tools = [_TOOL, recall_tool("openai")] if choices.often() else [_TOOL]
    steps = choices.below(max_steps + 1)
    if choices.often():
        draft.put(
            {
                "role": choices.pick(("system", "developer")),
                "content": _text(choices, choices.words()),
            }
        )
        if choices.rarely():
            draft.put({"role": "system", "content": choices.words()})
    if choices.rarely():
        draft.put({"role": "assistant", "content": "How can I help?"})
    draft.put({"role": "user", "content": _asked(choices)})
    if choices.below(8) == 7:
        write_spoken(draft, choices, steps, user=_user, agent=_agent)
        return draft
    draft.called()
    same_ids = choices.rarely()
    for number in range(steps):
        _between(draft, choices)
        if choices.rarely():
            _legacy_step(draft, choices)
        else:
            _step(draft, choices, "" if same_ids else f"{number}_")
        draft.called()
    _end(draft, choices)
    return draft


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _agent(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _text(choices: Choices, text: str) -> object:
    """Return the same text as a string or as parts."""
    if choices.sometimes():
        return [{"type": "text", "text": text}]
    return text


def _asked(choices: Choices) -> object:
    text = choices.words()
    how = choices.below(16)
    if how < 12:
        return text
    media: Message = (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file_1"}},
        {"type": "text", "text": ""},
    )[how - 12]
    return [{"type": "text", "text": text}, media]


def _between(draft: Draft, choices: Choices) -> None:
    """Add what may stand between two steps."""
    what = choices.below(16)
    if what == 15:
        draft.put({"role": "assistant", "content": _text(choices, choices.words())})
        draft.put({"role": "user", "content": _asked(choices)})
        draft.called()
    elif what == 14:
        draft.put({"role": "user", "content": _asked(choices)})
        draft.called()
    elif what == 13:
        draft.put({"role": "assistant", "content": choices.words()})
    elif what == 12:
        draft.put({"role": "system", "content": choices.words()})


def _step(draft: Draft, choices: Choices, prefix: str) -> None:
    message: Message = {"role": "assistant", "content": None}
    if choices.often():
        message["content"] = _text(choices, choices.pick(("", choices.words())))
    if choices.sometimes():
        message["reasoning_content"] = choices.words()
    calls = [
        _call(draft, choices, f"call_{prefix}{n}") for n in range(choices.pick((1, 1, 1, 2, 2, 3)))
    ]
    message["tool_calls"] = calls
    positions = draft.put(message)
    for call in choices.order(calls):
        result: Message = {"role": "tool", "tool_call_id": call["id"]}
        result["content"] = _text(choices, choices.observation())
        if choices.rarely():
            result["name"] = "search"
        positions += draft.put(result)
    draft.closed.append(tuple(positions))


def _call(draft: Draft, choices: Choices, call_id: str) -> Message:
    how = choices.below(16)
    if how == 15:
        return {"id": call_id, "type": "custom", "custom": {"name": "sh", "input": choices.words()}}
    if how == 14:
        function = {"name": TOOL_NAME, "arguments": json.dumps(draft.recall_arguments(choices))}
    elif how == 13:
        function = {"name": "broken", "arguments": '{"half'}
    else:
        arguments = json.dumps(choices.arguments(), ensure_ascii=choices.often())
        function = {"name": choices.pick(_NAMES), "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _legacy_step(draft: Draft, choices: Choices) -> None:
    call = {"name": "look", "arguments": json.dumps(choices.arguments())}
    seen = choices.observation()
    positions = draft.put(
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "look", "content": seen or None},
    )
    draft.closed.append(tuple(positions))


def _end(draft: Draft, choices: Choices) -> None:
    what = choices.below(16)
    if what == 15:
        draft.put({"role": "assistant", "content": choices.words()})
    elif what == 14:
        draft.put({"role": "user", "content": _asked(choices)})
        draft.called()
