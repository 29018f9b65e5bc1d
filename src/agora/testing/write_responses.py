"""Legal histories of OpenAI Responses."""

import json
from typing import Any

from agora.adapters.recall import recall_tool
from agora.core.recall import TOOL_NAME
from agora.testing.draft import Draft
from agora.testing.pen import Pen
from agora.testing.write_spoken import write_spoken

Message = dict[str, Any]

_TOOL = {"type": "function", "name": "search", "parameters": {"type": "object", "properties": {}}}


def write(pen: Pen, max_steps: int) -> Draft:
    """Return a history as a pen writes it."""
    draft = Draft()
    if pen.sometimes():
        draft.tools = [_TOOL, recall_tool("responses")] if pen.often() else [_TOOL]
    if pen.sometimes():
        draft.system = pen.words()
    steps = pen.below(max_steps + 1)
    if not steps and pen.sometimes():
        draft.messages = pen.words()
        return draft
    if pen.often():
        draft.put(_message(pen, pen.pick(("developer", "system"))))
    draft.put(_message(pen, "user"))
    if pen.below(8) == 7:
        write_spoken(draft, pen, steps, user=_user, agent=_agent)
        return draft
    draft.called()
    number = 0
    while number < steps:
        _between(draft, pen, number)
        number += _step(draft, pen, number)
        draft.called()
    _end(draft, pen, number)
    return draft


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _agent(text: str) -> Message:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


def _message(pen: Pen, role: str) -> Message:
    message: Message = {"role": role, "content": _asked(pen) if role == "user" else pen.words()}
    if pen.often():
        message = {"type": "message", **message}
    return message


def _asked(pen: Pen) -> object:
    text = pen.words()
    how = pen.below(16)
    if how < 10:
        return text
    parts: list[Message] = [{"type": "input_text", "text": text}]
    if how == 15:
        parts.append({"type": "input_image", "image_url": "data:image/png;base64,AAAA"})
    elif how == 14:
        parts.append({"type": "input_file", "file_id": "file_1"})
    elif how == 13:
        parts.append({"type": "input_text", "text": ""})
    return parts


def _between(draft: Draft, pen: Pen, number: int) -> None:
    what = pen.below(16)
    if what == 15:
        _speak(draft, pen, f"b{number}")
        draft.put(_message(pen, "user"))
        draft.called()
    elif what == 14:
        draft.put(_message(pen, "user"))
        draft.called()
    elif what == 13:
        _speak(draft, pen, f"b{number}")
    elif what == 12:
        draft.put(_message(pen, "developer"))
    elif what == 11 and pen.often():
        draft.put({"type": "compaction", "id": f"cmp_{number}", "encrypted_content": "AAAA"})


def _speak(draft: Draft, pen: Pen, name: str) -> None:
    """Add what the agent says when it calls nothing, with the reasoning it was said after."""
    if pen.often():
        draft.put(_reasoning(pen, name))
    if pen.sometimes():
        draft.put({"type": "web_search_call", "id": f"ws_{name}", "status": "completed"})
    message = {"id": f"msg_{name}", **_agent(pen.words())}
    if pen.sometimes():
        message["phase"] = "commentary"
    draft.put(message)


def _reasoning(pen: Pen, name: str) -> Message:
    item: Message = {"type": "reasoning", "id": f"rs_{name}", "summary": []}
    if pen.often():
        item["summary"] = [{"type": "summary_text", "text": pen.words()}]
    if pen.often():
        item["encrypted_content"] = "gAAAAA" * (1 + pen.below(60))
    return item


def _step(draft: Draft, pen: Pen, number: int) -> int:
    """Add a step, or several that late results make one; return how many calls were closed in."""
    own: list[int] = []
    late: list[Message] = []
    rounds = 0
    while True:
        outputs = _act(draft, pen, f"{number}_{rounds}", own)
        rounds += 1
        outputs = pen.order(late + outputs)
        held = len(outputs) - 1 if rounds < 3 and pen.rarely() else len(outputs)
        own += draft.put(*outputs[:held])
        late = outputs[held:]
        if not late:
            break
        if pen.sometimes():
            draft.put(_message(pen, pen.pick(("user", "developer"))))
    draft.closed.append(tuple(own))
    return 1


def _act(draft: Draft, pen: Pen, name: str, own: list[int]) -> list[Message]:
    """Add calls with what leads to them, and return their outputs."""
    if pen.often():
        own += draft.put(_reasoning(pen, name))
    if pen.rarely():
        own += draft.put({"type": "web_search_call", "id": f"ws_{name}", "status": "completed"})
    if pen.rarely():
        own += draft.put({"id": f"msg_{name}", **_agent(pen.words())})
    outputs = []
    for n in range(pen.pick((1, 1, 1, 2, 2, 3))):
        call, output = _call(draft, pen, f"{name}_{n}")
        own += draft.put(call)
        outputs.append(output)
    return outputs


def _call(draft: Draft, pen: Pen, name: str) -> tuple[Message, Message]:
    how = pen.below(16)
    ids = {"call_id": f"call_{name}"}
    item: Message = {"type": "function_call", "id": f"fc_{name}", **ids}
    seen: object = pen.observation()
    if pen.sometimes():
        seen = [{"type": "input_text", "text": seen}]
        if pen.sometimes():
            seen.append({"type": "input_image", "image_url": "data:image/png;base64,AAAA"})
    output: Message = {"type": "function_call_output", **ids, "output": seen}
    if how == 15:
        item = {"type": "custom_tool_call", **ids, "name": "sh", "input": pen.words()}
        output["type"] = "custom_tool_call_output"
    elif how == 14:
        arguments = json.dumps(draft.recall_arguments(pen))
        item |= {"name": TOOL_NAME, "arguments": arguments}
    elif how == 13 and pen.often():
        action = {"type": "exec", "command": ["ls", pen.words()]}
        item = {"type": "local_shell_call", "id": f"lsh_{name}", **ids, "action": action}
        output = {"type": "local_shell_call_output", **ids, "output": "ok"}
    elif how == 12 and pen.often():
        item = {"type": "computer_call", "id": f"cu_{name}", **ids, "action": {"type": "wait"}}
        shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}
        output = {"type": "computer_call_output", **ids, "output": shot}
    else:
        item |= {"name": pen.pick(("search", "read_file", "工具")), "status": "completed"}
        item["arguments"] = json.dumps(pen.arguments(), ensure_ascii=pen.often())
    return item, output


def _end(draft: Draft, pen: Pen, number: int) -> None:
    what = pen.below(16)
    if what == 15:
        _speak(draft, pen, f"e{number}")
    elif what == 14:
        draft.put(_message(pen, "user"))
        draft.called()
