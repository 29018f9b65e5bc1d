"""Requests on disk: a JSON file of facts and a file with the body for each."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

from harness.agents.wire import Json, Prompt, Route, body_of, prompt_of, route_of

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it arrived, and its answer."""

    number: int
    at: float
    """When it came, in seconds since 1970."""
    method: str
    path: str
    headers: Headers
    body: bytes
    status: int = 0
    answer_headers: Headers = field(default_factory=list)
    verdict: str = ""
    """Why the provider refused it; empty if it did not."""
    usage: Json = field(default_factory=dict)
    """The usage that the provider reported for its prompt."""
    thinking: Json = field(default_factory=dict)
    """How many thinking blocks a provider that binds them kept and dropped, or found invalid."""

    @property
    def route(self) -> Route:
        """What it asks for."""
        return route_of(self.path) if self.method == "POST" else "other"

    @property
    def model(self) -> str:
        """The model that it names, or an empty text."""
        if self.route == "gemini":
            return self.path.rpartition("/models/")[2].partition(":")[0]
        return str((self.json or {}).get("model") or "")

    @property
    def json(self) -> Json | None:
        """The body as JSON, or None."""
        return body_of(self.body, header(self.headers, "content-encoding"))

    @property
    def prompt(self) -> Prompt:
        """The prompt in the body; empty where there is none."""
        return _prompt(self.route, self.body, header(self.headers, "content-encoding"))


@lru_cache(maxsize=1_024)
def _prompt(route: Route, body: bytes, encoding: str) -> Prompt:
    """Return the prompt of a body, cached because it takes long to read."""
    found = body_of(body, encoding)
    return () if found is None else prompt_of(route, found)


def header(headers: Sequence[tuple[str, str]], name: str) -> str:
    """Return the value of a header; empty where it is missing."""
    return next((value for key, value in headers if key.lower() == name), "")


def write_request(folder: Path, request: Request) -> None:
    """Write a request under its number."""
    folder.mkdir(parents=True, exist_ok=True)
    known = asdict(request)
    body = known.pop("body")
    (folder / f"{request.number:04d}.body").write_bytes(body)
    (folder / f"{request.number:04d}.json").write_text(json.dumps(known), encoding="utf-8")


def read_requests(folder: Path) -> list[Request]:
    """Return the requests in a folder, in the order in which they came."""
    found = []
    for path in sorted(folder.glob("*.json")):
        known = json.loads(path.read_text(encoding="utf-8"))
        for name in ("headers", "answer_headers"):
            known[name] = [(key, value) for key, value in known[name]]
        found.append(Request(body=path.with_suffix(".body").read_bytes(), **known))
    return found
