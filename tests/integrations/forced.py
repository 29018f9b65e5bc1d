"""A door before a real language-model server, through which a small model can call tools.

Messages and tools go through as they come, and what the server says it read of them is added up.
A small model writes a call as JSON among its words, in a form that the server does not know for
one: the door reads it there. One too small for that is made to call: the server's own grammar then
allows nothing but the arguments of `read_file` for the next file, and after the last one words.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.integrations.loopback import chat_events

Body = dict[str, Any]


@dataclass
class Forced:
    """The door's state, and its sums."""

    upstream: str
    """The server's base URL, with /v1."""
    names: Sequence[str] = ()
    """The files that the model is made to read; none: it calls what it will."""
    url: str = ""
    prompts: list[int] = field(default_factory=list)
    """The tokens that the server read, call by call."""
    read: int = 0
    """How often the model called `read_file`."""
    last: str = ""
    most: int = 60
    """The tokens that an answer may have."""
    seconds: float = 900.0

    @property
    def calls(self) -> int:
        return len(self.prompts)

    def answer(self, body: Body) -> tuple[int, str, bytes]:
        """Return the server's answer to a chat completions request."""
        tools = [tool["function"]["name"] for tool in body.get("tools") or ()]
        asked: Body = {"messages": body["messages"], "max_tokens": self.most, "temperature": 0}
        asked |= {name: body[name] for name in ("model", "tools") if body.get(name)}
        name = self._made(tools, asked) if self.names else ""
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
        self.prompts.append(answer["usage"]["prompt_tokens"])
        self.last = answer["choices"][0]["message"].get("content") or ""
        heard = {"name": name, "arguments": self.last} if name else heard_call(self.last, tools)
        if heard:
            self.read += heard["name"] == "read_file"
            made = {"id": f"call_{self.calls}", "type": "function", "function": heard}
            message = {"role": "assistant", "content": None, "tool_calls": [made]}
            answer["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}
        if body.get("stream"):
            return status, "text/event-stream", b"".join(chat_events(answer))
        return status, "application/json", json.dumps(answer).encode()

    def _made(self, tools: Sequence[str], asked: Body) -> str:
        """Allow the arguments of one tool alone, and return its name; none: words."""
        asked.pop("tools", None)  # The server takes no grammar together with tools.
        if self.calls < len(self.names):
            name, argument = "read_file", "name"
            value: Body = {"type": "string", "enum": [self.names[self.calls]]}
        elif "final_answer" in tools:
            name, argument, value = "final_answer", "answer", {"type": "string", "maxLength": 200}
        else:
            return ""
        schema = {"type": "object", "properties": {argument: value}, "required": [argument]}
        form = {"name": name, "strict": True, "schema": schema}
        asked["response_format"] = {"type": "json_schema", "json_schema": form}
        return name


def heard_call(text: str, tools: Sequence[str]) -> dict[str, str] | None:
    """Return the first call of a known tool among the words, with its arguments as JSON.

    >>> heard_call('So: {"name": "read_file", "arguments": {"name": "a.md"}}', ["read_file"])
    {'name': 'read_file', 'arguments': '{"name": "a.md"}'}
    """
    try:
        said, _ = json.JSONDecoder().raw_decode(text, _opening(text))
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("name") not in tools:
        return None
    arguments = said.get("arguments")
    if not isinstance(arguments, dict):
        return None
    return {"name": said["name"], "arguments": json.dumps(arguments)}


def _opening(text: str) -> int:
    """Return where a call begins; a template shows small models doubled braces, and they copy."""
    at = max(text.find("{"), 0)
    return at + 1 if text.startswith("{{", at) else at


@contextmanager
def forced(upstream: str, names: Sequence[str] = ()) -> Iterator[Forced]:
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
