"""An agent's loop written by hand over each of the three APIs, for clients that have none."""

import copy
import json
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import Any

from tests.integrations.conformance import MODEL, PNG, SYSTEM, TASK, Case

Body = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ABOUT = "Return the text of a file."
Loop = Generator[Body, Body, str]
"""Gives request bodies, takes whole answers as dicts, and returns the last answer's text."""


def loop(case: Case, history: list[Body]) -> Loop:
    """Return the loop for the case's API; it writes into `history`, the caller's own list."""
    start = {"openai": _chat, "responses": _responses, "anthropic": _messages}
    return start[case.endpoint](case, history)


def drive(steps: Loop, ask: Callable[[Body], Body], history: list[Body]) -> str:
    """Run a loop with a synchronous client, and hold the history to what it was at each call."""
    try:
        body = next(steps)
        while True:
            before = copy.deepcopy(history)
            answer = ask(body)
            assert history == before, "the caller's list was changed"
            body = steps.send(answer)
    except StopIteration as stop:
        return str(stop.value)


async def adrive(steps: Loop, ask: Callable[[Body], Any], history: list[Body]) -> str:
    """Run a loop with an asynchronous client."""
    try:
        body = next(steps)
        while True:
            before = copy.deepcopy(history)
            answer = await ask(body)
            assert history == before, "the caller's list was changed"
            body = steps.send(answer)
    except StopIteration as stop:
        return str(stop.value)


def _chat(case: Case, history: list[Body]) -> Loop:
    content: Any = TASK
    if case.image:
        url = f"data:image/png;base64,{PNG}"
        content = [{"type": "text", "text": TASK}, {"type": "image_url", "image_url": {"url": url}}]
    history += [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]
    function = {"name": "read_file", "description": ABOUT, "parameters": SCHEMA}
    tools = [{"type": "function", "function": function}]
    while True:
        whole = yield {"model": MODEL, "messages": history, "tools": tools}
        said = whole["choices"][0]["message"]
        kept = {"role": "assistant", "content": said.get("content")}
        calls = said.get("tool_calls") or []
        if said.get("thinking_blocks"):
            kept["thinking_blocks"] = said["thinking_blocks"]
        if calls:
            kept["tool_calls"] = [
                {"id": c["id"], "type": "function", "function": dict(c["function"])} for c in calls
            ]
        history.append(kept)
        if not calls:
            return str(said["content"])
        for call in calls:
            text = case.read_file(json.loads(call["function"]["arguments"])["name"])
            history.append({"role": "tool", "tool_call_id": call["id"], "content": text})


def _responses(case: Case, history: list[Body]) -> Loop:
    content: Any = TASK
    if case.image:
        url = f"data:image/png;base64,{PNG}"
        image = {"type": "input_image", "image_url": url, "detail": "auto"}
        content = [{"type": "input_text", "text": TASK}, image]
    history.append({"role": "user", "content": content})
    tools = [{"type": "function", "name": "read_file", "parameters": SCHEMA, "strict": False}]
    options = {"model": MODEL, "instructions": SYSTEM, "tools": tools, "store": False}
    while True:
        whole = yield {**options, "input": history}
        items = [_without_none(item) for item in whole["output"]]
        history += items
        calls = [item for item in items if item["type"] == "function_call"]
        if not calls:
            return str(items[-1]["content"][0]["text"])
        for call in calls:
            text = case.read_file(json.loads(call["arguments"])["name"])
            output = {"type": "function_call_output", "call_id": call["call_id"]}
            history.append({**output, "output": text})


def _messages(case: Case, history: list[Body]) -> Loop:
    content: Any = TASK
    if case.image:
        source = {"type": "base64", "media_type": "image/png", "data": PNG}
        content = [{"type": "text", "text": TASK}, {"type": "image", "source": source}]
    history.append({"role": "user", "content": content})
    tool = {"name": "read_file", "description": ABOUT, "input_schema": SCHEMA}
    options: Body = {"model": MODEL, "max_tokens": 2048, "system": SYSTEM, "tools": [tool]}
    if case.thinking:
        options["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    while True:
        whole = yield {**options, "messages": history}
        blocks = [_without_none(block) for block in whole["content"]]
        history.append({"role": "assistant", "content": blocks})
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if not calls:
            return str(blocks[-1]["text"])
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call["id"],
                "content": case.read_file(call["input"]["name"]),
            }
            for call in calls
        ]
        history.append({"role": "user", "content": results})


def _without_none(value: Body) -> Body:
    return {key: item for key, item in value.items() if item is not None}


def whole_of(endpoint: str, pieces: Iterable[Body]) -> Body:
    """Return the whole answer of a stream's events."""
    if endpoint == "responses":
        *_, last = pieces
        response: Body = last["response"]
        return response
    return _joined_messages(pieces) if endpoint == "anthropic" else _joined_chat(pieces)


def _joined_chat(pieces: Iterable[Body]) -> Body:
    text = ""
    calls: dict[int, Body] = {}
    for piece in pieces:
        for choice in piece["choices"]:
            delta = choice["delta"]
            text += delta.get("content") or ""
            for part in delta.get("tool_calls") or ():
                call = calls.setdefault(
                    part["index"], {"id": "", "function": {"name": "", "arguments": ""}}
                )
                call["id"] += part.get("id") or ""
                function = part.get("function") or {}
                call["function"]["name"] += function.get("name") or ""
                call["function"]["arguments"] += function.get("arguments") or ""
    message = {"content": text or None, "tool_calls": list(calls.values())}
    return {"choices": [{"message": message}]}


def _joined_messages(pieces: Iterable[Body]) -> Body:
    blocks: list[Body] = []
    inputs: dict[int, str] = {}
    for piece in pieces:
        if piece["type"] == "content_block_start":
            blocks.append(dict(piece["content_block"]))
        elif piece["type"] == "content_block_delta":
            block, delta = blocks[piece["index"]], piece["delta"]
            if delta["type"] == "input_json_delta":
                at = piece["index"]
                inputs[at] = inputs.get(at, "") + delta["partial_json"]
            for name in ("text", "thinking", "signature"):
                if name in delta:
                    block[name] = (block.get(name) or "") + delta[name]
    for at, text in inputs.items():
        blocks[at]["input"] = json.loads(text)
    return {"content": blocks}


def events_of(text: str) -> list[Body]:
    """Return the data of server-sent events."""
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def gathered(stream: AsyncIterator[Any]) -> list[Body]:
    """Return a stream's pieces as dicts."""
    return [piece.model_dump() async for piece in stream]
