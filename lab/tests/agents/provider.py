"""A small HTTP server as a provider: it checks keys, counts, bills and fails on demand.

It bills every request that it has read and accepted, also if it cuts the connection off before
the answer arrives: that is what a client with a cap has to reckon with.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, NamedTuple, Self

INPUT, OUTPUT = 2.0, 8.0
"""Dollars per million tokens."""


class Fault(NamedTuple):
    """What goes wrong with one request."""

    status: int = 0
    """0 for a connection that is cut off after the request is billed."""
    half: bool = False
    """Cut off in the middle of the answer."""
    hang_s: float = 0.0
    body: bytes | None = None


class Provider:
    """The server, what it received, and what is to go wrong."""

    def __init__(
        self,
        *,
        keys: Collection[str] = (),
        refuses: Collection[str] = (),
        most_samples: int = 8,
        latency_s: float = 0.0,
        chance: Random | None = None,
    ) -> None:
        self.faults: deque[Fault] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.billed = 0.0
        self.most_at_once = 0
        self._keys, self._refuses, self._most_samples = set(keys), set(refuses), most_samples
        self._chance, self._latency_s = chance, latency_s
        self._at_once = 0
        self._lock = threading.Lock()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                provider._serve(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        asked = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.bodies.append(asked)
            fault = self.faults.popleft() if self.faults else self._drawn()
        time.sleep((fault.hang_s if fault else 0) or self._latency_s)
        status, found = self._answer(handler, asked, fault)
        with self._lock:
            self._at_once -= 1
        data = fault.body if fault and fault.body is not None else json.dumps(found).encode()
        if fault and not fault.status and not fault.half and fault.body is None:
            handler.close_connection = True
            return
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("retry-after-ms", "1")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        if fault and fault.half:
            data, handler.close_connection = data[: len(data) // 2], True
        handler.wfile.write(data)

    def _drawn(self) -> Fault | None:
        if self._chance is None or self._chance.random() > 0.3:
            return None
        kinds = (Fault(), Fault(half=True), Fault(429), Fault(503))
        return self._chance.choice(kinds)

    def _answer(
        self, handler: BaseHTTPRequestHandler, asked: dict[str, Any], fault: Fault | None
    ) -> tuple[int, dict[str, Any]]:
        if fault and fault.status:
            return fault.status, {"error": {"message": "not now"}}
        key = str(handler.headers["authorization"] or "").removeprefix("Bearer ")
        if self._keys and key not in self._keys:
            return 401, {"error": {"message": "Incorrect API key provided"}}
        for name in self._refuses & asked.keys():
            problem = f"Unsupported parameter: '{name}' is not supported with this model."
            return 400, {"error": {"message": problem, "param": name}}
        samples = asked.get("n", 1)
        if samples > self._most_samples:
            problem = f"Field 'n': Value must be at most {self._most_samples}"
            return 400, {"error": {"message": problem}}
        return 200, self._completion(asked, samples)

    def _completion(self, asked: dict[str, Any], samples: int) -> dict[str, Any]:
        words = sum(len(str(message["content"]).split()) for message in asked["messages"])
        most = asked.get("max_tokens") or asked.get("max_completion_tokens") or 1
        # The dearest tokenizer there could be, and answers of any length allowed.
        prompt = len(json.dumps(asked))
        output = samples * (self._chance.randint(1, most) if self._chance else min(most, 3))
        with self._lock:
            self.billed += (prompt * INPUT + output * OUTPUT) / 1_000_000
        choice = {"message": {"role": "assistant", "content": f"heard {words} words"}}
        return {
            "choices": [{**choice, "index": n, "finish_reason": "stop"} for n in range(samples)],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": output,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        }


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_: object) -> None:
        """Stay silent: clients that give up are part of the tests."""
