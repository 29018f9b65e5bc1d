"""An OpenAI-compatible server that takes the same time for every answer, and counts its calls.

    python -m lab.harness.steady_server --port 8199 --latency-ms 20

Speaks what labelling asks of a llama.cpp server: chat completions with several samples,
/apply-template, /tokenize and the /completion that scores a text. What it answers depends on the
request alone, so two runs of a plan must end with the same answers. GET /tally tells how many calls
came, how many of them were different, and how many were under way at once. POST /fail?next=N has
the next N calls refused with status 503.
"""

import argparse
import asyncio
import hashlib
import json
import signal
import socket
from collections import Counter
from typing import Any, cast

try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop  # type: ignore[assignment]

_WORDS = ("open drawer 1", "go to shelf 2", "take mug 1", "look", "inventory", "use lamp 1")


class Steady:
    """What the server knows: how long it takes, and what it was asked."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.asked: Counter[bytes] = Counter()
        self.calls = 0
        self.now = 0
        self.most = 0
        self.fail = 0

    def tally(self) -> dict[str, int]:
        """Return the calls that a label may need one of; requests without a model not counted."""
        return {
            "calls": self.calls,
            "distinct": len(self.asked),
            "again": self.calls - len(self.asked),
            "most_at_once": self.most,
        }

    def answer(self, path: str, body: bytes) -> tuple[int, bytes, bool]:
        """Return status and body, and whether it is an answer of the model, which takes time."""
        if path == "/tally":
            return 200, json.dumps(self.tally()).encode(), False
        if path.startswith("/fail"):
            self.fail = int(path.partition("next=")[2])
            return 200, b"{}", False
        if path in {"/health", "/v1/models"}:
            return 200, b'{"status":"ok"}', False
        digest = hashlib.blake2b(path.encode() + body, digest_size=16).digest()
        if path not in {"/v1/chat/completions", "/completion"}:
            return 200, self._helper(path, json.loads(body)), False
        if self.fail:
            self.fail -= 1
            return 503, b'{"error":{"message":"busy","code":503}}', False
        self.calls += 1
        self.asked[digest] += 1
        asked = json.loads(body)
        made = _completion(asked) if path == "/completion" else _chat(asked, digest)
        return 200, json.dumps(made).encode(), True

    def _helper(self, path: str, asked: dict[str, Any]) -> bytes:
        if path == "/apply-template":
            text = "".join(f"<|{one['role']}|>{one['content']}\n" for one in asked["messages"])
            return json.dumps({"prompt": f"{text}<|assistant|>"}).encode()
        if path == "/tokenize":
            text = asked["content"]
            pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
            return json.dumps(
                {"tokens": [{"id": _id(piece), "piece": piece} for piece in pieces]}
            ).encode()
        raise KeyError(path)


_PIECES: dict[int, str] = {}


def _id(piece: str) -> int:
    number = int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=3).digest(), "big")
    _PIECES[number] = piece
    return number


def _chat(asked: dict[str, Any], digest: bytes) -> dict[str, Any]:
    samples = asked.get("n", 1)
    texts = [_WORDS[digest[number % 16] % len(_WORDS)] for number in range(samples)]
    prompt = sum(len(one["content"]) for one in asked["messages"]) // 4
    return {
        "id": "chatcmpl-steady",
        "object": "chat.completion",
        "created": 0,
        "model": asked["model"],
        "choices": [
            {
                "index": number,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
            for number, text in enumerate(texts)
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": 4 * samples,
            "total_tokens": prompt + 4 * samples,
            "prompt_tokens_details": {"cached_tokens": prompt // 2},
        },
    }


def _completion(asked: dict[str, Any]) -> dict[str, Any]:
    forced = [int(term.strip("<[]>")) for term in asked["grammar"].split()[2:]]
    return {
        "completion_probabilities": [
            {
                "id": number,
                "token": _PIECES[number],
                "bytes": list(_PIECES[number].encode()),
                "logprob": -(number % 1000) / 100,
            }
            for number in forced
        ]
    }


class _Connection(asyncio.Protocol):
    """HTTP/1.1 with bodies of known length, one request after the other; all a client sends."""

    def __init__(self, steady: Steady) -> None:
        self._steady = steady
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's are none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end])
            at = head.lower().find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            path = head.split(b" ", 2)[1].decode()
            status, made, timed = self._steady.answer(path, body)
            if timed and self._steady.latency_s:
                self._steady.now += 1
                self._steady.most = max(self._steady.most, self._steady.now)
                asyncio.get_running_loop().call_later(
                    self._steady.latency_s, self._send_later, status, made
                )
            else:
                self._send(status, made)

    def _send_later(self, status: int, body: bytes) -> None:
        self._steady.now -= 1
        self._send(status, body)

    def _send(self, status: int, body: bytes) -> None:
        if self._transport is not None:
            head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: "
            self._transport.write(f"{head}{len(body)}\r\n\r\n".encode() + body)


async def serve(port: int, latency_s: float) -> None:
    """Serve until told to stop; the first line printed is the port."""
    loop = asyncio.get_running_loop()
    steady = Steady(latency_s)
    server = await loop.create_server(
        lambda: _Connection(steady), "127.0.0.1", port, backlog=1024, family=socket.AF_INET
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    stop = asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    await stop.wait()
    server.close()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(options.port, options.latency_ms / 1000))


if __name__ == "__main__":
    main()
