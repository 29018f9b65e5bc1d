"""Send made-up keys in many places of a request, and record at which upstream each arrives.

Every key has a number of its own. The upstreams note the numbers they see, in paths,
queries and headers, also behind escapes and base64. A key is astray if it arrives at an upstream
that is not its owner's. One request in twenty is honest and has to arrive, so that refusing
everything fails the test.
"""

import asyncio
import base64
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from harness.gateway.loopback import free_port, serving

FAMILIES = ("openai", "anthropic")
"""The families with an upstream in the shipped configuration."""
HOST = "localhost"
_NUMBER = re.compile(rb"(?i)CAN([0-9]{7})X")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{16,}")
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
KEYS: dict[str, tuple[str, ...]] = {
    "openai": ("sk-proj-{}", "sk-svcacct-{}", "sk-{}T3BlbkFJabc"),
    "anthropic": ("sk-ant-api03-{}", "sk-ant-oat01-{}"),
    "gemini": ("AIza{}", "ya29.{}"),
    "bedrock": ("ABSK{}", "bedrock-api-key-{}"),
}
"""Keys with a prefix that identifies their family."""
PLACES: dict[str, tuple[str, ...]] = {
    "anthropic": ("x-api-key",),
    "azure": ("api-key", "x-ms-authorization-auxiliary", "x-ms-token"),
    "gemini": ("x-goog-api-key", "x-goog-iam-authorization-token"),
    "bedrock": ("x-amz-security-token", "x-amzn-auth-token"),
    "openai": ("openai-api-key", "x-openai-token"),
}
"""Headers that identify a key's family, whatever the key looks like."""
HIDDEN = ("Cookie", "Proxy-Authorization", "Ocp-Apim-Subscription-Key", "X-Auth-Token", "x_api_key")
FREE = ("User-Agent", "X-Title", "X-Request-Id", "Accept-Language", "x-stainless-os", "session_id")
"""Headers in which no provider expects a key."""
SCHEMES = (
    "Bearer {}",
    "BEARER   {}",
    "Bearer\t{}",
    "{}",
    'Bearer "{}"',
    "Bearer '{}'",
    "Bearer x,{}",
    "Bearer x, Bearer {}",
    "Bearer a b c {}",
    "Token token={}",
    "Key {}",
    "AWS4-HMAC-SHA256 Credential={}/20260101/us-east-1/bedrock/aws4_request, Signature=0",
)
PARAMETERS: dict[str, str] = {
    "key": "gemini",
    "KEY": "gemini",
    "%6bey": "gemini",
    "access_token": "gemini",
    "api-key": "azure",
    "subscription-key": "azure",
    "Subscription-Key": "azure",
    "X-Amz-Security-Token": "bedrock",
    "X-Amz-Credential": "bedrock",
    "X-Amz-Signature": "bedrock",
    "api_key": "",
    "apikey": "",
    "x-api-key": "",
    "token": "",
    "auth": "",
    "authorization": "",
    "client_secret": "",
    "sig": "",
    "key[]": "",
    "%61pi%5Fkey": "",
    "%256bey": "gemini",
}
"""Query parameters, and the family of a key in them; none if no provider reads it there."""
ASKED = (
    "/v1/chat/completions /v1/responses /v1/messages /v1/messages/count_tokens /v1/embeddings "
    "/v1beta/models/gemini-2.5-pro:generateContent /v1beta/models /v1/models/g-pro:countTokens "
    "/openai/deployments/d/chat/completions /openai/v1/responses /model/anthropic.claude/converse "
    "/v1/models /v1/files /v1/unknown /models /admin / //v1/messages /v1/../v1/messages "
    "/v1/%2e%2e/v1/messages /%761/messages /v1%2fmessages /V1/MESSAGES /v1/messages;x=1 "
    "/v1/messages/..%2f..%2fv1/chat/completions /v1/chat/completions/../../messages "
    "/v1/messages%00 /v1beta/../v1/messages /openai/../v1/chat/completions /\\v1/messages "
    "/v1/messages/batches /v1/chat/completions/ /chat/completions /messages"
).split()
METHODS = ("POST", "POST", "POST", "GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT")
HONEST: dict[str, tuple[str, str]] = {
    "openai": ("/v1/chat/completions", "Authorization: Bearer sk-proj-{}"),
    "anthropic": ("/v1/messages?beta=true", "x-api-key: sk-ant-api03-{}"),
    "pool": ("/v1/chat/completions", "Authorization: Bearer own-{}"),
}


@dataclass(frozen=True, slots=True)
class Made:
    """One request, and the families of its keys."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    owners: dict[int, str]
    """The families that may see each number, or an empty set."""
    honest: bool = False

    def raw(self) -> bytes:
        """Return it as sent over a socket."""
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {HOST}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += ["Connection: close", f"Content-Length: {len(BODY)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + BODY


class Maker:
    """Requests drawn from a seed."""

    def __init__(self, seed: int, honest: tuple[str, ...] = FAMILIES) -> None:
        """Start over; `honest` are the families that have an upstream."""
        self.random = random.Random(seed)
        self.number = 0
        self._honest = honest

    def one(self) -> Made:
        """Return the next request."""
        if self.random.random() < 0.05:
            return self._one_that_is_honest()
        headers: list[tuple[str, str]] = [("Content-Type", "application/json")]
        owners: dict[int, str] = {}
        path, query = self.random.choice(ASKED), []
        for _ in range(self.random.choice((1, 1, 1, 2, 2, 3))):
            number = self._next()
            place = self.random.choice((self._scheme, self._named, self._free, self._basic))
            if self.random.random() < 0.45:
                text, owners[number] = self._parameter(number)
                query.append(text)
            else:
                (name, value), owners[number] = place(number)
                headers.append((name, value))
        if self.random.random() < 0.03:
            number = self._next()
            owner, key = self._key(number)
            path, owners[number] = f"{path}/{key}", owner
        if self.random.random() < 0.1:
            headers.append(("anthropic-version", "2023-06-01"))
        target = path + ("?" + "".join(self._joined(query)) if query else "")
        self.random.shuffle(headers)
        return Made(self.random.choice(METHODS), target, tuple(headers), owners)

    def _one_that_is_honest(self) -> Made:
        family = self.random.choice(self._honest)
        path, line = HONEST[family]
        number = self._next()
        name, _, value = line.format(f"CAN{number:07d}X").partition(": ")
        headers = ((name, value), ("Content-Type", "application/json"))
        return Made("POST", path, headers, {number: family}, honest=True)

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _key(self, number: int) -> tuple[str, str]:
        owner = self.random.choice(tuple(KEYS))
        return owner, self.random.choice(KEYS[owner]).format(f"CAN{number:07d}X")

    def _scheme(self, number: int) -> tuple[tuple[str, str], str]:
        owner, key = self._key(number)
        if self.random.random() < 0.1:
            key = key.upper()
        scheme = self.random.choice(SCHEMES)
        if "AWS4" in scheme and owner != "bedrock":
            owner = ""
        name = self.random.choice(("Authorization", "authorization", "AUTHORIZATION"))
        return (name, scheme.format(key)), owner

    def _named(self, number: int) -> tuple[tuple[str, str], str]:
        whose = self.random.choice(tuple(PLACES))
        name = self.random.choice(PLACES[whose])
        if self.random.random() < 0.5:
            return (name, f"CAN{number:07d}X"), whose
        owner, key = self._key(number)
        return (name, key), owner if owner == whose else ""

    def _free(self, number: int) -> tuple[tuple[str, str], str]:
        owner, key = self._key(number)
        name = self.random.choice((*FREE, *HIDDEN))
        return (name, key), "" if name in HIDDEN else owner

    def _basic(self, number: int) -> tuple[tuple[str, str], str]:
        _, key = self._key(number)
        code = base64.b64encode(f"user:{key}".encode()).decode()
        return ("Authorization", f"Basic {code}"), ""

    def _parameter(self, number: int) -> tuple[str, str]:
        name, whose = self.random.choice(tuple(PARAMETERS.items()))
        if self.random.random() < 0.5:
            return f"{name}=CAN{number:07d}X", whose
        owner, key = self._key(number)
        if self.random.random() < 0.2:
            key = "".join(f"%{byte:02x}" for byte in key.encode())
        return f"{name}={quote(key, safe='%')}", owner if owner == whose else ""

    def _joined(self, query: list[str]) -> Iterator[str]:
        yield self.random.choice(("", "alt=sse&", "a=b;", "&&", "beta=true&", "upload_id=1&"))
        for n, text in enumerate(query):
            yield (self.random.choice(("&", ";")) if n else "") + text


@dataclass
class Recorder:
    """An upstream of one family, which notes the numbers of the keys it sees."""

    family: str
    seen: Counter[int] = field(default_factory=Counter)
    requests: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Take any request, and answer it."""
        if scope["type"] == "lifespan":
            for _ in range(2):
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
            return
        while (await receive()).get("more_body"):
            pass
        self.requests += 1
        said = [scope["raw_path"], scope["query_string"]]
        said += [part for pair in scope["headers"] for part in pair]
        self.seen.update(numbers(b"\n".join(said)))
        head = [(b"content-type", b"application/json"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"{}"})


def numbers(text: bytes) -> set[int]:
    """Return the numbers of the keys in a text, also behind escapes and base64."""
    texts = [text, unquote_to_bytes(text), unquote_to_bytes(unquote_to_bytes(text))]
    # Text that is not base64 may decode too, if its length fits.
    whole = (one if len(one) % 4 != 1 else one[:-1] for one in _BASE64.findall(text))
    texts += (base64.b64decode(one + b"=" * (-len(one) % 4)) for one in whole)
    return {int(number) for one in texts for number in _NUMBER.findall(one)}


Ask = Callable[[Made], Coroutine[Any, Any, int]]


async def send_all(ask: Ask, maker: Maker, count: int, at_once: int = 16) -> "Sent":
    """Send so many requests, some at a time, and return whose keys they had."""
    sent, left = Sent(), iter(range(count))

    async def some() -> None:
        for _ in left:
            made = maker.one()
            sent.owners.update(made.owners)
            status = await ask(made)
            sent.statuses[status] += 1
            if made.honest:
                sent.honest[status] += 1

    await asyncio.gather(*(some() for _ in range(at_once)))
    return sent


@dataclass
class Sent:
    """The requests and their answers."""

    owners: dict[int, str] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    honest: Counter[int] = field(default_factory=Counter)

    def figures(self, recorders: list[Recorder]) -> dict[str, Any]:
        """Return how many keys arrived, and how many of them at a wrong upstream."""
        astray = [
            (number, self.owners[number], recorder.family)
            for recorder in recorders
            for number in recorder.seen
            if self.owners[number] != recorder.family
        ]
        return {
            "requests": self.statuses.total(),
            "keys": len(self.owners),
            "arrived": {recorder.family: len(recorder.seen) for recorder in recorders},
            "keys_at_an_upstream_that_is_not_theirs": len(astray),
            "astray": astray[:10],
            "statuses": {str(status): n for status, n in sorted(self.statuses.items())},
            "honest": {str(status): n for status, n in sorted(self.honest.items())},
        }


@contextmanager
def recording(families: tuple[str, ...] = FAMILIES) -> Iterator[list[tuple[Recorder, str]]]:
    """Run an upstream of each family, and give their addresses."""
    with ExitStack() as stack:
        recorders = [Recorder(family) for family in families]
        yield [(one, stack.enter_context(serving(one))) for one in recorders]


def over_sockets(url: str) -> Ask:
    """Return a function that sends a request over a new connection."""
    host, _, port = url.removeprefix("http://").partition(":")

    async def ask(made: Made) -> int:
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(made.raw())
            line = await asyncio.wait_for(reader.readline(), 30)
            await asyncio.wait_for(reader.read(), 30)
        except ConnectionError:
            return 0
        finally:
            writer.close()
        return int(line[9:12]) if line.startswith(b"HTTP/1.1 ") else 0

    return ask


def through_envoy(count: int, seed: int = 3) -> dict[str, Any]:
    """Return the figures of so many requests to a real Envoy, configured as we ship it."""
    from harness.envoy import stack

    families = ("openai", "anthropic")
    with (
        tempfile.TemporaryDirectory() as folder,
        recording(families) as upstreams,
        stack(Path(folder), *(url for _, url in upstreams), strict=True) as running,
    ):
        sent = asyncio.run(send_all(over_sockets(running.url), Maker(seed, families), count))
        return sent.figures([one for one, _ in upstreams])


def through_a_pool(count: int, seed: int = 4) -> dict[str, Any]:
    """Return the same before a pool of one's own, where no provider's key belongs."""
    from harness.envoy import SETTINGS, envoy, filter_process, pool, written

    port, admin, filter_port, filter_admin = (free_port() for _ in range(4))
    with (
        tempfile.TemporaryDirectory() as folder,
        recording(("pool",)) as [(replica, url)],
    ):
        settings = written(Path(folder), SETTINGS, filter_port, filter_admin)
        process = filter_process(settings, filter_admin)
        process.start()
        told = pool(port=port, admin=admin, filter_port=filter_port, replica=url)
        try:
            with envoy(told, Path(folder)):
                ask = over_sockets(f"http://127.0.0.1:{port}")
                sent = asyncio.run(send_all(ask, Maker(seed, ("pool",)), count))
        finally:
            process.end()
        return sent.figures([replica])
