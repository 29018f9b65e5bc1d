"""Legal histories of OpenAI Responses."""

import json
from typing import Any

from agora.core.recall import TOOL_NAME
from agora.formats import recall_tool
from harness.histories.choices import Choices
from harness.histories.draft import Draft
from harness.histories.writers.spoken import write_spoken

Message = dict[str, Any]

_TOOL = {"type": "function", "name": "search", "parameters": {"type": "object", "properties": {}}}


def write(choices: Choices, max_steps: int) -> Draft:
    """Return a history as a choices writes it."""
    draft = Draft()
    if choices.sometimes():
        draft.tools = [_TOOL, recall_tool("responses")] if choices.often() else [_TOOL]
    if choices.sometimes():
        draft.system = choices.words()
    steps = choices.below(max_steps + 1)
    if not steps and choices.sometimes():
        draft.messages = choices.words()
        return draft
    if choices.often():
        draft.put(_message(choices, choices.pick(("developer", "system"))))
    draft.put(_message(choices, "user"))
    if choices.below(8) == 7:
        write_spoken(draft, choices, steps, user=_user, agent=_agent)
        return draft
    draft.called()
    number = 0
    while number < steps:
        _between(draft, choices, number)
        number += _step(draft, choices, number)
        draft.called()
    _end(draft, choices, number)
    return draft


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _agent(text: str) -> Message:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


def _message(choices: Choices, role: str) -> Message:
    message: Message = {
        "role": role,
        "content": _asked(choices) if role == "user" else choices.words(),
    }
    if choices.often():
        message = {"type": "message", **message}
    return message


def _asked(choices: Choices) -> object:
    text = choices.words()
    how = choices.below(16)
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


def _between(draft: Draft, choices: Choices, number: int) -> None:
    what = choices.below(16)
    if what == 15:
        _speak(draft, choices, f"b{number}")
        draft.put(_message(choices, "user"))
        draft.called()
    elif what == 14:
        draft.put(_message(choices, "user"))
        draft.called()
    elif what == 13:
        _speak(draft, choices, f"b{number}")
    elif what == 12:
        draft.put(_message(choices, "developer"))
    elif what == 11 and choices.often():
        draft.put({"type": "compaction", "id": f"cmp_{number}", "encrypted_content": "AAAA"})


def _speak(draft: Draft, choices: Choices, name: str) -> None:
    """Add what the agent says when it calls nothing, with the reasoning it was said after."""
    if choices.often():
        draft.put(_reasoning(choices, name))
    if choices.sometimes():
        draft.put({"type": "web_search_call", "id": f"ws_{name}", "status": "completed"})
    message = {"id": f"msg_{name}", **_agent(choices.words())}
    if choices.sometimes():
        message["phase"] = "commentary"
    draft.put(message)


def _reasoning(choices: Choices, name: str) -> Message:
    item: Message = {"type": "reasoning", "id": f"rs_{name}", "summary": []}
    if choices.often():
        item["summary"] = [{"type": "summary_text", "text": choices.words()}]
    if choices.often():
        item["encrypted_content"] = "gAAAAA" * (1 + choices.below(60))
    return item


def _step(draft: Draft, choices: Choices, number: int) -> int:
    """Add a step, or several that late results make one; return how many calls were closed in."""
    own: list[int] = []
    late: list[Message] = []
    rounds = 0
    while True:
        outputs = _act(draft, choices, f"{number}_{rounds}", own)
        rounds += 1
        outputs = choices.order(late + outputs)
        held = len(outputs) - 1 if rounds < 3 and choices.rarely() else len(outputs)
        own += draft.put(*outputs[:held])
        late = outputs[held:]
        if not late:
            break
        if choices.sometimes():
            draft.put(_message(choices, choices.pick(("user", "developer"))))
    draft.closed.append(tuple(own))
    return 1


def _act(draft: Draft, choices: Choices, name: str, own: list[int]) -> list[Message]:
    """Add calls with what leads to them, and return their outputs."""
    if choices.often():
        own += draft.put(_reasoning(choices, name))
    if choices.rarely():
        own += draft.put({"type": "web_search_call", "id": f"ws_{name}", "status": "completed"})
    if choices.rarely():
        own += draft.put({"id": f"msg_{name}", **_agent(choices.words())})
    outputs = []
    for n in range(choices.pick((1, 1, 1, 2, 2, 3))):
        call, output = _call(draft, choices, f"{name}_{n}")
        own += draft.put(call)
        outputs.append(output)
    return outputs


def _call(draft: Draft, choices: Choices, name: str) -> tuple[Message, Message]:
    how = choices.below(16)
    ids = {"call_id": f"call_{name}"}
    item: Message = {"type": "function_call", "id": f"fc_{name}", **ids}
    seen: object = choices.observation()
    if choices.sometimes():
        seen = [{"type": "input_text", "text": seen}]
        if choices.sometimes():
            seen.append({"type": "input_image", "image_url": "data:image/png;base64,AAAA"})
    output: Message = {"type": "function_call_output", **ids, "output": seen}
    if how == 15:
        item = {"type": "custom_tool_call", **ids, "name": "sh", "input": choices.words()}
        output["type"] = "custom_tool_call_output"
    elif how == 14:
        arguments = json.dumps(draft.recall_arguments(choices))
        item |= {"name": TOOL_NAME, "arguments": arguments}
    elif how == 13 and choices.often():
        action = {"type": "exec", "command": ["ls", choices.words()]}
        item = {"type": "local_shell_call", "id": f"lsh_{name}", **ids, "action": action}
        output = {"type": "local_shell_call_output", **ids, "output": "ok"}
    elif how == 12 and choices.often():
        item = {"type": "computer_call", "id": f"cu_{name}", **ids, "action": {"type": "wait"}}
        shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}
        output = {"type": "computer_call_output", **ids, "output": shot}
    else:
        item |= {"name": choices.pick(("search", "read_file", "工具")), "status": "completed"}
        item["arguments"] = json.dumps(choices.arguments(), ensure_ascii=choices.often())
    return item, output


def _end(draft: Draft, choices: Choices, number: int) -> None:
    what = choices.below(16)
    if what == 15:
        _speak(draft, choices, f"e{number}")
    elif what == 14:
        draft.put(_message(choices, "user"))
        draft.called()
