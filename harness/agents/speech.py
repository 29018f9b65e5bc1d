"""The fake model's turns in the words of each API: as one body, and as the events of a stream."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agora.core.prefix_cache import Bill
from harness.agents.rules import SEALED, signature
from harness.agents.script import Call, Turn
from harness.agents.wire import Json

OUTPUT_TOKENS = 60
Think = Callable[[str, Sequence[Json], bool], Json]
"""Returns the block for a thought, after what the answer has said so far, redacted or not."""
_THINKS_TWICE = 4
_REDACTS = 10
"""Which answers of a provider that binds its thinking have two blocks, and which redacted ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A turn, and the fields around it in an answer."""

    turn: Turn
    model: str
    number: int
    """The number of the answer in the session, from which ids are made."""
    usage: Bill
    writes: bool = False
    """True if this provider bills and reports cache writes."""
    thinks: bool = False
    think: Think | None = None
    """How a provider that binds its thinking signs it."""
    transformations: tuple[Json, ...] | None = None
    """The report on the request's thinking; None if there is none."""

    @property
    def thought(self) -> str:
        """The thought before the turn; empty if thinking is off."""
        return f"Thinking about answer {self.number}. " * 12 if self.thinks else ""


def said(event: str, data: Json) -> bytes:
    """Return one event of a stream; an empty `name` is left out."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _words(text: str) -> list[str]:
    """Return a text in the pieces in which a model streams it."""
    return re.findall(r"\s*\S+", text)


# --- Anthropic Messages


def anthropic(reply: Reply) -> Json:
    """Return the message."""
    blocks = _thoughts(reply, [])
    blocks.append({"type": "text", "text": reply.turn.text})
    if reply.think is not None and reply.turn.calls and reply.number % _THINKS_TWICE == 0:
        blocks += _thoughts(reply, blocks)
    blocks += [
        {
            "type": "tool_use",
            "id": f"toolu_{reply.number:05d}{n}",
            "name": call.tool,
            "input": call.arguments,
        }
        for n, call in enumerate(reply.turn.calls)
    ]
    reported = reply.transformations
    done = {} if reported is None else {"input_transformations": list(reported)}
    return {
        "id": f"msg_{reply.number:05d}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": blocks,
        "stop_reason": "tool_use" if reply.turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.usage.uncached,
            "cache_read_input_tokens": reply.usage.read,
            "cache_creation_input_tokens": reply.usage.written,
            "output_tokens": OUTPUT_TOKENS,
            "service_tier": "standard",
        },
        **done,
    }


def _thoughts(reply: Reply, said: Sequence[Json]) -> list[Json]:
    """Return the thinking block that follows the blocks so far, or None if thinking is off."""
    thought = reply.thought
    if not thought:
        return []
    if reply.think is not None:
        return [reply.think(thought, said, reply.number % _REDACTS == 0)]
    return [{"type": "thinking", "thinking": thought, "signature": signature(thought)}]


def anthropic_events(reply: Reply) -> Iterator[bytes]:
    """Yield the message as a stream.

    The report on the input is in its first event. The last one has it only where another model
    took over in between, which does not happen here.
    """
    whole = anthropic(reply)
    blocks = whole["content"]
    usage = {**whole["usage"], "output_tokens": 1}
    start = {**whole, "content": [], "stop_reason": None, "usage": usage}
    yield said("message_start", {"type": "message_start", "message": start})
    yield said("ping", {"type": "ping"})
    for n, block in enumerate(blocks):
        empty, deltas = _anthropic_deltas(block)
        yield said(
            "content_block_start",
            {"type": "content_block_start", "index": n, "content_block": empty},
        )
        for delta in deltas:
            yield said(
                "content_block_delta",
                {"type": "content_block_delta", "index": n, "delta": delta},
            )
        yield said("content_block_stop", {"type": "content_block_stop", "index": n})
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    tokens = {"output_tokens": OUTPUT_TOKENS}
    yield said("message_delta", {"type": "message_delta", "delta": delta, "usage": tokens})
    yield said("message_stop", {"type": "message_stop"})


def _anthropic_deltas(block: Json) -> tuple[Json, list[Json]]:
    match block["type"]:
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "redacted_thinking":
            return block, []
        case "text":
            deltas = [{"type": "text_delta", "text": word} for word in _words(block["text"])]
            return {"type": "text", "text": ""}, deltas
        case _:
            text = json.dumps(block["input"], ensure_ascii=False)
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text}]


# --- OpenAI chat


def chat(reply: Reply) -> Json:
    """Return the completion."""
    message: Json = {"role": "assistant", "content": reply.turn.text}
    calls = [
        {
            "id": f"call_{reply.number:05d}{n}",
            "type": "function",
            "function": {"name": call.tool, "arguments": _arguments(call)},
        }
        for n, call in enumerate(reply.turn.calls)
    ]
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if calls else "stop",
        "logprobs": None,
    }
    return {**_chat_head(reply, "chat.completion"), "choices": [choice], "usage": _spent(reply)}


def chat_events(reply: Reply, *, with_usage: bool) -> Iterator[bytes]:
    """Yield the completion as a stream."""
    choice = chat(reply)["choices"][0]
    head = _chat_head(reply, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return said("", {**head, "choices": choices})

    yield chunk({"role": "assistant", "content": ""})
    for word in _words(choice["message"]["content"]):
        yield chunk({"content": word})
    for n, call in enumerate(choice["message"].get("tool_calls", ())):
        begun = {**call, "index": n, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        rest = {"index": n, "function": {"arguments": call["function"]["arguments"]}}
        yield chunk({"tool_calls": [rest]})
    yield chunk({}, choice["finish_reason"])
    if with_usage:
        yield said("", {**head, "choices": [], "usage": _spent(reply)})
    yield b"data: [DONE]\n\n"


def _chat_head(reply: Reply, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{reply.number:05d}",
        "object": kind,
        "created": 1_700_000_000,
        "model": reply.model,
    }


def _spent(reply: Reply) -> Json:
    return {
        "prompt_tokens": reply.usage.tokens,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": reply.usage.tokens + OUTPUT_TOKENS,
        "prompt_tokens_details": _details(reply),
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _details(reply: Reply) -> Json:
    written = {"cache_write_tokens": reply.usage.written} if reply.writes else {}
    return {"cached_tokens": reply.usage.read, **written}


def _arguments(call: Call) -> str:
    value = call.arguments
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- OpenAI Responses


def responses(reply: Reply) -> Json:
    """Return the response."""
    usage = {
        "input_tokens": reply.usage.tokens,
        "input_tokens_details": _details(reply),
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": 20 if reply.thinks else 0},
        "total_tokens": reply.usage.tokens + OUTPUT_TOKENS,
    }
    begun = _response_begun(reply)
    return {**begun, "status": "completed", "output": _items(reply), "usage": usage}


def responses_events(reply: Reply) -> Iterator[bytes]:
    """Yield the response as a stream."""
    for number, (name, data) in enumerate(_response_events(reply)):
        yield said(name, {"type": name, "sequence_number": number, **data})


def _response_events(reply: Reply) -> Iterator[tuple[str, Json]]:
    whole = responses(reply)
    yield "response.created", {"response": _response_begun(reply)}
    for n, item in enumerate(whole["output"]):
        at = {"item_id": item["id"], "output_index": n, "content_index": 0}
        begun = {**item, "content": []} if item["type"] == "message" else item
        yield "response.output_item.added", {"output_index": n, "item": begun}
        if item["type"] == "message":
            part = item["content"][0]
            yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
            for word in _words(part["text"]):
                yield "response.output_text.delta", {**at, "delta": word}
            yield "response.output_text.done", {**at, "text": part["text"]}
            yield "response.content_part.done", {**at, "part": part}
        elif item["type"] == "function_call":
            done = {"item_id": item["id"], "output_index": n, "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", done
        yield "response.output_item.done", {"output_index": n, "item": item}
    yield "response.completed", {"response": whole}


def _items(reply: Reply) -> list[Json]:
    items: list[Json] = []
    number = f"{reply.number:05d}"
    if reply.thinks:
        # As long as the reasoning behind a step is once it is sealed.
        sealed = SEALED + hashlib.sha256(number.encode()).hexdigest() * 8
        summary = [{"type": "summary_text", "text": f"**Answer {reply.number}**"}]
        items.append(
            {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": summary,
                "encrypted_content": sealed,
            }
        )
    if not reply.turn.calls or reply.number % 3 == 0:
        part = {"type": "output_text", "text": reply.turn.text, "annotations": []}
        items.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    return items + [_call_item(call, f"{number}{n}") for n, call in enumerate(reply.turn.calls)]


def _call_item(call: Call, number: str) -> Json:
    common = {"call_id": f"call_{number}", "name": call.tool, "status": "completed"}
    if isinstance(call.arguments, str):
        return {
            "type": "custom_tool_call",
            "id": f"ctc_{number}",
            "input": call.arguments,
            **common,
        }
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"type": "function_call", "id": f"fc_{number}", "arguments": arguments, **common}


def _response_begun(reply: Reply) -> Json:
    return {
        "id": f"resp_{reply.number:05d}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "in_progress",
        "model": reply.model,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1,
        "top_p": 1,
        "usage": None,
    }


# --- Gemini


def gemini(reply: Reply) -> Json:
    """Return the content; its stream has it as its only event."""
    calls: list[Json] = [
        {"functionCall": {"name": call.tool, "args": call.arguments}} for call in reply.turn.calls
    ]
    if calls:
        calls[0]["thoughtSignature"] = signature(f"answer {reply.number}")
    parts = [{"text": reply.turn.text}, *calls]
    return {
        "candidates": [
            {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": reply.usage.tokens,
            "cachedContentTokenCount": reply.usage.read,
            "candidatesTokenCount": OUTPUT_TOKENS,
            "totalTokenCount": reply.usage.tokens + OUTPUT_TOKENS,
        },
        "modelVersion": reply.model,
    }
