"""Inspect AI evaluation logs: a JSON document with all samples, or an archive of them (.eval)."""

from collections.abc import Iterator
from typing import Any

from agora.adapters.rules.shape import as_list, as_object
from agora.logs.calls import rising
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.values import as_count, as_seconds, as_text

_ATTACHED = "attachment://"
Message = dict[str, Any]


def fits(value: Any) -> bool:
    """Tell whether a record is a log, the header of one, or a sample of one."""
    fields = as_object(value)
    if isinstance(fields.get("eval"), dict) and "version" in fields:
        return True
    return "epoch" in fields and "messages" in fields and "target" in fields


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Return one trajectory per sample."""
    model: str | None = None
    run = name
    for record in records:
        fields = as_object(record.value)
        header = as_object(fields.get("eval"))
        if header:
            found = header.get("model")
            model = found if isinstance(found, str) else None
            run = as_text(header.get("run_id")) or name
        samples = as_list(fields.get("samples")) if header else [record.value]
        for sample in map(as_object, samples):
            if not isinstance(sample.get("messages"), list):
                tally.refuse(record.where, "is no sample: it has no messages")
                continue
            recording = _recording(sample, model, run)
            if recording is None:
                tally.skip("the sample ended before the model was called")
            else:
                yield recording


def _recording(sample: dict[str, object], model: str | None, run: str) -> Recording | None:
    attached = as_object(sample.get("attachments"))
    sent = [as_object(message) for message in as_list(sample["messages"])]
    calls = tuple(at for at, message in enumerate(sent) if message.get("role") == "assistant")
    agent = [sent[at] for at in calls]
    if not agent:
        return None
    while sent and sent[-1].get("role") == "assistant" and sent[-1].get("tool_calls"):
        # The sample reached a limit before the tools were run.
        sent.pop()
    events = {}
    tools: object = None
    for event in map(as_object, as_list(sample.get("events"))):
        if event.get("event") == "model":
            output = as_object(event.get("output"))
            choices = as_list(output.get("choices"))
            answer = as_object(as_object(choices[0]).get("message")) if choices else {}
            events[as_text(answer.get("id"))] = (event, as_object(output.get("usage")))
            tools = _tools(event.get("tools")) or tools
    made = [events.get(as_text(message.get("id"))) for message in agent]
    tokens = [as_count(one[1].get("output_tokens")) for one in made if one]
    times = [as_seconds(one[0].get("timestamp")) for one in made if one]
    counted = [count for count in tokens if count is not None]
    timed = [at for at in times if at is not None]
    task = as_text(sample.get("id"))
    return Recording(
        id=f"{run}/{task}/{as_text(sample.get('epoch')) or 1}",
        format="openai",
        messages=[_message(message, attached) for message in sent],
        tools=tools,
        model=model,
        calls=calls,
        output_tokens=tuple(counted) if len(counted) == len(agent) else (),
        at_seconds=rising(timed) if len(timed) == len(agent) else (),
        task=task,
    )


def _message(message: dict[str, object], attached: dict[str, object]) -> Message:
    role = message.get("role")
    content = message.get("content")
    out: Message = {"role": role}
    if isinstance(content, list):
        thoughts: list[str] = []
        out["content"] = _parts(content, attached, thoughts)
        if thoughts:
            out["reasoning_content"] = "\n".join(thoughts)
    else:
        out["content"] = _resolved(as_text(content), attached)
    if role == "tool":
        out["tool_call_id"] = as_text(message.get("tool_call_id"))
    calls = [_tool_call(as_object(call)) for call in as_list(message.get("tool_calls"))]
    if calls and role == "assistant":
        out["tool_calls"] = calls
    return out


def _parts(content: list[Any], attached: dict[str, object], thoughts: list[str]) -> list[Message]:
    parts: list[Message] = []
    for part in map(as_object, content):
        kind = part.get("type")
        if kind == "text":
            parts.append({"type": "text", "text": _resolved(as_text(part.get("text")), attached)})
        elif kind == "reasoning":
            thoughts.append(_resolved(as_text(part.get("reasoning")), attached))
        elif kind == "image":
            url = _resolved(as_text(part.get("image")), attached)
            parts.append({"type": "image_url", "image_url": {"url": url}})
        else:
            parts.append({"type": "text", "text": as_text(part)})
    return parts


def _resolved(text: str, attached: dict[str, object]) -> str:
    """Return a text, or the long one that was moved out of the message."""
    if text.startswith(_ATTACHED):
        return as_text(attached.get(text[len(_ATTACHED) :])) or text
    return text


def _tool_call(call: dict[str, object]) -> Message:
    function = {"name": as_text(call.get("function")), "arguments": as_text(call.get("arguments"))}
    return {"id": as_text(call.get("id")), "type": "function", "function": function}


def _tools(tools: object) -> object:
    keys = ("name", "description", "parameters")
    return [
        {"type": "function", "function": {key: tool[key] for key in keys if key in tool}}
        for tool in map(as_object, as_list(tools))
    ] or None
