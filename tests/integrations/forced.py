"""A door before a real language-model server that makes a small model call its tool.

A model of 135 million parameters calls no tools of its own accord. Here the first requests may only
be answered with the arguments of `read_file` for the next file, by the server's own grammar; after
them the model has to speak. Messages go through as they come, and what the server says it read of
them is added up.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.integrations.loopback import chat_events


@dataclass
class Forced:
    """The door's state, and its sums."""

    upstream: str
    """The server's base URL, with /v1."""
    names: Sequence[str]
    url: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    largest_prompt: int = 0
    seconds: float = 600.0

    def answer(self, body: dict[str, Any]) -> tuple[int, str, bytes]:
        """Return the server's answer to a chat completions request."""
        tools = [tool["function"]["name"] for tool in body.get("tools") or ()]
        asked: dict[str, Any] = {
            "messages": body["messages"],
            "model": body.get("model"),
            "max_tokens": 80,
            "temperature": 0,
        }
        name, values = "", [""]
        if self.calls < len(self.names):
            name, field, values = "read_file", "name", [self.names[self.calls]]
        elif "final_answer" in tools:
            name, field, values = "final_answer", "answer", []
        if name:
            argument = {"type": "string", **({"enum": values} if values else {"maxLength": 200})}
            schema = {"type": "object", "properties": {field: argument}, "required": [field]}
            form = {"name": name, "strict": True, "schema": schema}
            asked["response_format"] = {"type": "json_schema", "json_schema": form}
        self.calls += 1
        request = urllib.request.Request(  # noqa: S310 - the address is the caller's own
            f"{self.upstream}/chat/completions",
            json.dumps(asked).encode(),
            {"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as said:  # noqa: S310
                status, text = said.status, said.read()
        except urllib.error.HTTPError as error:
            return error.code, "application/json", error.read()
        answer = json.loads(text)
        tokens = answer["usage"]["prompt_tokens"]
        self.prompt_tokens += tokens
        self.largest_prompt = max(self.largest_prompt, tokens)
        if name:
            arguments = answer["choices"][0]["message"]["content"]
            function = {"name": name, "arguments": arguments}
            made = {"id": f"call_{self.calls}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [made]}
            answer["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}
        if body.get("stream"):
            return status, "text/event-stream", b"".join(chat_events(answer))
        return status, "application/json", json.dumps(answer).encode()


@contextmanager
def forced(upstream: str, names: Sequence[str]) -> Iterator[Forced]:
    """Serve on a free port of 127.0.0.1."""
    state = Forced(upstream, names)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, kind, text = state.answer(body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
