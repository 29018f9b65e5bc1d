"""A strict provider on loopback: five APIs, a script of answers, every request kept.

Standard library only, so that it runs in the environment of any framework.
"""

import base64
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agora.formats import validate

Body = dict[str, Any]
FORMATS = {
    "/chat/completions": "openai",
    "/responses": "responses",
    "/messages": "anthropic",
    "/converse": "bedrock",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}
OUTPUT_TOKENS = 8
"""Of every answer."""
FIELDS = {"responses": "input", "gemini": "contents"}
SYSTEMS = {"responses": "instructions", "gemini": "systemInstruction"}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that an answer makes."""

    id: str
    name: str
    arguments: Body


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the script."""

    text: str = ""
    thought: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """One request as received."""

    path: str
    format: str
    body: Body

    @property
    def messages(self) -> Any:
        return self.body[FIELDS.get(self.format, "messages")]

    @property
    def options(self) -> Body:
        """Everything but the messages."""
        return {k: v for k, v in self.body.items() if k != FIELDS.get(self.format, "messages")}

    @property
    def system(self) -> object:
        return self.body.get(SYSTEMS.get(self.format, "system"))

    @property
    def tools(self) -> object:
        return self.body.get("toolConfig" if self.format == "bedrock" else "tools")

    @property
    def model(self) -> str:
        """The model, which some APIs have in the path."""
        if "model" in self.body:
            return str(self.body["model"])
        name = self.path.removesuffix("/converse").rpartition("/")[2]
        return name.partition(":")[0]

    @property
    def thinking(self) -> bool | None:
        setting = self.body.get("thinking")
        return setting.get("type") != "disabled" if isinstance(setting, dict) else None


@dataclass
class Loopback:
    """Answers the n-th request with the n-th answer of its script, and the last ever after."""

    script: Sequence[Answer]
    received: list[Received] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    url: str = ""
    """Without `/v1`."""
    fails_at: int = 0
    """The request that gets a server error, and every one after it; 0 for none."""
    failed: int = 0
    refuses: str = ""
    """A text whose requests get a 400."""

    def answer(self, path: str, body: Body) -> tuple[int, str, list[bytes]]:
        """Return status, content type and body, in pieces."""
        format = next((f for end, f in FORMATS.items() if path.split("?")[0].endswith(end)), None)
        if format is None:
            if path.split("?")[0].endswith("/count_tokens"):
                counted = json.dumps({"input_tokens": _tokens(body)}).encode()
                return 200, "application/json", [counted]
            return 404, "application/json", [b'{"error": {"message": "no such path"}}']
        received = Received(path, format, body)
        # What the provider holds itself cannot be checked here.
        broken = not body.get("previous_response_id") and validate(
            received.messages,
            format=format,
            system=received.system,
            tools=received.tools,
            thinking=received.thinking,
        )
        refusal = broken[0].error if broken else ""
        if self.refuses and self.refuses in json.dumps(received.messages):
            refusal = "planted"
        if refusal:
            self.refused.append(refusal)
            error = {"type": "invalid_request_error", "message": refusal}
            return 400, "application/json", [json.dumps({"error": error}).encode()]
        if self.fails_at and len(self.received) >= self.fails_at:
            self.failed += 1
            return 500, "application/json", [b'{"error": {"message": "planted"}}']
        answer = self.script[min(len(self.received), len(self.script) - 1)]
        self.received.append(received)
        number = len(self.received)
        whole = _WHOLE[format](answer, number, received.model, _tokens(body))
        if "streamGenerateContent" in path:
            return 200, "text/event-stream", [_data(whole)]
        if not body.get("stream"):
            return 200, "application/json", [json.dumps(whole).encode()]
        return 200, "text/event-stream", list(_EVENTS[format](whole))


class Posted(BaseHTTPRequestHandler):
    """Answers with what `answered` says to a body."""

    protocol_version = "HTTP/1.1"

    def answered(self, body: Any) -> tuple[int, str, list[bytes]]:
        """Return the status, the content type and the pieces of an answer."""
        raise NotImplementedError

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.say(*self.answered(body))

    def say(self, status: int, kind: str, pieces: list[bytes]) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(sum(map(len, pieces))))
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port of 127.0.0.1; the address is what the block gets."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def loopback(
    script: Sequence[Answer], *, fails_at: int = 0, refuses: str = ""
) -> Iterator[Loopback]:
    """Serve on a free port of 127.0.0.1."""
    state = Loopback(script, fails_at=fails_at, refuses=refuses)

    class Handler(Posted):
        def do_GET(self) -> None:
            model = {"id": "gpt-4-turbo", "object": "model", "created": 1, "owned_by": "us"}
            self.say(200, "application/json", [json.dumps({"data": [model]}).encode()])

        def answered(self, body: Any) -> tuple[int, str, list[bytes]]:
            return state.answer(self.path, body)

    with serving(Handler) as state.url:
        yield state


def _chat(answer: Answer, number: int, model: str, tokens: int) -> Body:
    message: Body = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in answer.calls
        ]
    finish = "tool_calls" if answer.calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": tokens,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": tokens + OUTPUT_TOKENS,
        },
    }


def chat_events(whole: Body) -> Iterator[bytes]:
    """Return a whole chat completions answer as the events of a stream."""
    message = whole["choices"][0]["message"]
    deltas: list[Body] = [{"role": "assistant", "content": ""}]
    if message["content"]:
        deltas += [{"content": piece} for piece in _pieces(message["content"])]
    for index, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        opening = {**call["function"], "arguments": ""}
        deltas.append({"tool_calls": [{**call, "index": index, "function": opening}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in _pieces(arguments)
        ]
    head = {**whole, "object": "chat.completion.chunk", "usage": None}
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield _data({**head, "choices": [choice]})
    finish = whole["choices"][0]["finish_reason"]
    yield _data({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    yield _data({**head, "choices": [], "usage": whole["usage"]})
    yield b"data: [DONE]\n\n"


def _message(answer: Answer, number: int, model: str, tokens: int) -> Body:
    content: list[Body] = []
    if answer.thought:
        content.append(
            {
                "type": "thinking",
                "thinking": answer.thought,
                "signature": _sealed(answer.thought, number),
            }
        )
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in answer.calls
    ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": OUTPUT_TOKENS},
    }


def message_events(whole: Body) -> Iterator[bytes]:
    """Return a whole answer of Anthropic's as the events of a stream."""
    opening = {**whole, "content": [], "stop_reason": None}
    yield _event("message_start", message=opening)
    for index, block in enumerate(whole["content"]):
        deltas: list[Body]
        if block["type"] == "text":
            empty: Body = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        elif block["type"] == "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": piece}
                for piece in _pieces(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "redacted_thinking":
            empty, deltas = block, []
        else:
            empty = {**block, "input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in _pieces(json.dumps(block["input"]))
            ]
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage=whole["usage"])
    yield _event("message_stop")


def _response(answer: Answer, number: int, model: str, tokens: int) -> Body:
    output: list[Body] = []
    if answer.thought:
        summary = [{"type": "summary_text", "text": answer.thought}]
        output.append(
            {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": summary,
                "encrypted_content": _sealed(answer.thought, number),
            }
        )
    if answer.text:
        output.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": answer.text, "annotations": []}],
            }
        )
    output += [
        {
            "type": "function_call",
            "id": f"fc_{call.id}",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        for call in answer.calls
    ]
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + OUTPUT_TOKENS,
        },
    }


def _response_events(whole: Body) -> Iterator[bytes]:
    number = iter(range(10_000))

    def event(kind: str, **more: Any) -> bytes:
        return _event(kind, sequence_number=next(number), **more)

    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    for index, item in enumerate(whole["output"]):
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            part = item["content"][0]
            opening = {**item, "content": [], "status": "in_progress"}
            inside = {**place, "content_index": 0}
            yield event("response.output_item.added", output_index=index, item=opening)
            yield event("response.content_part.added", **inside, part={**part, "text": ""})
            for piece in _pieces(part["text"]):
                yield event("response.output_text.delta", **inside, delta=piece, logprobs=[])
            yield event("response.output_text.done", **inside, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **inside, part=part)
        elif item["type"] == "function_call":
            opening = {**item, "arguments": "", "status": "in_progress"}
            yield event("response.output_item.added", output_index=index, item=opening)
            for piece in _pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield event("response.function_call_arguments.done", **place, **done)
        else:
            yield event("response.output_item.added", output_index=index, item=item)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=whole)


def _converse(answer: Answer, number: int, model: str, tokens: int) -> Body:
    content: list[Body] = [{"text": answer.text}] if answer.text else []
    content += [
        {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}}
        for call in answer.calls
    ]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if answer.calls else "end_turn",
        "usage": {
            "inputTokens": tokens,
            "outputTokens": OUTPUT_TOKENS,
            "totalTokens": tokens + OUTPUT_TOKENS,
        },
        "metrics": {"latencyMs": 1},
    }


def _generated(answer: Answer, number: int, model: str, tokens: int) -> Body:
    parts: list[Body] = [{"text": answer.text}] if answer.text else []
    parts += [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
        for call in answer.calls
    ]
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": OUTPUT_TOKENS}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {**usage, "totalTokenCount": tokens + OUTPUT_TOKENS},
        "modelVersion": model,
    }


_WHOLE = {
    "openai": _chat,
    "responses": _response,
    "anthropic": _message,
    "bedrock": _converse,
    "gemini": _generated,
}
_EVENTS = {"openai": chat_events, "responses": _response_events, "anthropic": message_events}


def _sealed(thought: str, number: int) -> str:
    """Return a made-up signature, unique to an answer."""
    return base64.b64encode(f"{number}: {thought}".encode()).decode()


def prompt_tokens_of(request: Received) -> int:
    """Return the prompt tokens that the provider reports for a request."""
    return _tokens(request.body)


def _tokens(body: Body) -> int:
    return len(json.dumps(body)) // 4


def _pieces(text: str) -> list[str]:
    return [text[at : at + 12] for at in range(0, len(text), 12)]


def _data(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _event(kind: str, **more: Any) -> bytes:
    return b"event: " + kind.encode() + b"\n" + _data({"type": kind, **more})
