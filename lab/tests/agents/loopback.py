"""A small real HTTP server that speaks as a llama.cpp server does, and fails on demand.

It works: it reads the request, refuses what the real one refuses in the same
words, counts tokens, remembers its prefix, and writes an answer. That it does
so like the real one is checked in test_real_server.py, where the same
questions go to both.
"""

import json
import threading
import time
from collections import Counter, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

SLOTS = 2
KNOWN = {
    "model",
    "messages",
    "temperature",
    "seed",
    "max_tokens",
    "stop",
    "n",
}


class Fault(NamedTuple):
    """What goes wrong with one request."""

    status: int = 503
    body: bytes = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
    headers: tuple[tuple[str, str], ...] = ()
    hang_s: float = 0.0
    cut: bool = False
    dribble_s: float = 0.0


class Loopback:
    """The server, what was asked of it, and what is to go wrong next."""

    def __init__(self) -> None:
        self.faults: deque[Fault] = deque()
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.slow_s = 0.0
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._read_before: list[str] = []
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                fault = loopback._enter(body, dict(self.headers.items()))
                try:
                    self._answer(fault, body)
                finally:
                    loopback._leave()

            def _answer(self, fault: Fault | None, body: bytes) -> None:
                time.sleep(fault.hang_s if fault else loopback.slow_s)
                if fault and fault.cut:
                    self.close_connection = True
                    return
                status, data = (fault.status, fault.body) if fault else loopback.reply(self, body)
                self.send_response(status)
                for name, value in fault.headers if fault else ():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if fault and fault.dribble_s:
                    for byte in data:
                        try:
                            self.wfile.write(bytes([byte]))
                            self.wfile.flush()
                        except OSError:
                            return
                        time.sleep(fault.dribble_s)
                else:
                    self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _enter(self, body: bytes, headers: dict[str, str]) -> Fault | None:
        with self._lock:
            self.bodies.append(body)
            self.headers.append(headers)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            return self.faults.popleft() if self.faults else None

    def _leave(self) -> None:
        with self._lock:
            self._at_once -= 1

    def reply(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        try:
            asked = json.loads(body)
        except ValueError:
            return _refusal(400, "parse error")
        answer = {
            "/v1/chat/completions": self._chat,
            "/apply-template": self._template,
            "/tokenize": self._tokenize,
            "/completion": self._forced,
        }.get(handler.path)
        if answer is None:
            return _refusal(404, "File Not Found")
        return answer(asked)

    def _chat(self, asked: dict[str, Any]) -> tuple[int, bytes]:
        if not isinstance(asked.get("messages"), list):
            return _refusal(400, "Expected 'messages' to be an array")
        samples = asked.get("n", 1)
        if not 1 <= samples <= SLOTS:
            return _refusal(
                400, f"Field 'n': Value must be between 1 <= value <= {SLOTS}, but got {samples}"
            )
        if set(asked) - KNOWN:
            return _refusal(400, f"the double does not know {sorted(set(asked) - KNOWN)}")
        words = " ".join(str(m["content"]) for m in asked["messages"]).split()
        with self._lock:
            cached = _shared(words, self._read_before)
            self._read_before = words
        tokens = f"heard {len(words)} words".split(" ")[: asked["max_tokens"]]
        text = " ".join(tokens)
        choice: dict[str, Any] = {
            "finish_reason": "length" if len(tokens) < 3 else "stop",
            "message": {"role": "assistant", "content": text},
        }
        return _json(
            {
                "choices": [choice | {"index": n} for n in range(samples)],
                "object": "chat.completion",
                "model": asked["model"],
                "usage": {
                    # The real one counts the tokens of the first choice only.
                    "completion_tokens": len(tokens),
                    "prompt_tokens": len(words),
                    "total_tokens": len(words) + len(tokens),
                    "prompt_tokens_details": {"cached_tokens": cached},
                },
                "timings": {"cache_n": cached, "prompt_n": len(words) - cached},
            }
        )

    def _template(self, asked: dict[str, Any]) -> tuple[int, bytes]:
        lines = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in asked["messages"]]
        return _json({"prompt": "".join(lines) + "<|im_start|>assistant\n"})

    def _tokenize(self, asked: dict[str, Any]) -> tuple[int, bytes]:
        """Each byte is a token; a byte that is no character comes as a list, as with the real."""
        tokens = [
            {"id": byte, "piece": chr(byte) if byte < 128 else [byte]}
            for byte in asked["content"].encode()
        ]
        return _json({"tokens": tokens})

    def _forced(self, asked: dict[str, Any]) -> tuple[int, bytes]:
        """Write what the grammar allows; a byte is as likely as it was frequent before."""
        seen = Counter(asked["prompt"])
        probabilities: list[dict[str, Any]] = []
        for term in _terms(asked["grammar"]):
            data = [int(term[2:-2])] if term.startswith("<[") else list(json.loads(term).encode())
            probabilities.append(
                {"id": data[-1], "bytes": data, "logprob": -1.0 / (1 + seen[data[-1]])}
            )
            seen.update(data)
        probabilities = probabilities[: asked["n_predict"]]
        if len(probabilities) < asked["n_predict"]:
            probabilities.append({"id": 2, "bytes": [], "logprob": -9.0})
        return _json({"completion_probabilities": probabilities})


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing: clients that give up are what is tested."""


def _terms(grammar: str) -> list[str]:
    found, rest = [], grammar.removeprefix("root ::= ")
    while rest:
        end = rest.index("]>") + 2 if rest.startswith("<[") else rest.index('"', 1) + 1
        found.append(rest[:end])
        rest = rest[end:].lstrip(" ")
    return found


def _shared(one: list[str], other: list[str]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return min(count, max(0, len(one) - 1))


def _json(value: Any) -> tuple[int, bytes]:
    return 200, json.dumps(value).encode()


def _refusal(status: int, message: str) -> tuple[int, bytes]:
    error = {"code": status, "message": message, "type": "invalid_request_error"}
    return status, json.dumps({"error": error}).encode()
