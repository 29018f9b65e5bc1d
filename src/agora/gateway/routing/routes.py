"""What a request is: whose API it asks for, and what of it may be edited."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from agora.adapters import BodyFields, format_named, format_names
from agora.errors import UnknownFormatError
from agora.gateway.config import Format

Header = tuple[bytes, bytes]
Family = Format
"""Whose API it is: by it an upstream is chosen, and errors take its shape."""

BYPASS = b"x-agora-bypass"
TOKEN = b"x-agora-token"
OWN = b"x-agora-"
"""How headers begin that are meant for the gateway."""
_NO = frozenset({b"", b"0", b"false", b"no", b"off"})


@dataclass(frozen=True, slots=True)
class Route:
    """One kind of request."""

    name: str
    """What metrics and logs call it."""
    family: Family
    format: str = ""
    """The wire format of its messages; empty where they are not ours to read."""
    known: bool = True
    """Whether anything says whose API it is. If not, the family is only that of the error."""

    @property
    def fields(self) -> BodyFields:
        """What its bodies call the parts of a prompt.

        Raises:
            UnknownFormatError: its messages are not ours to read.
        """
        fields = format_named(self.format).fields
        if fields is None:
            raise UnknownFormatError(f"no body holds the format {self.format!r}", format_names())
        return fields

    @property
    def field(self) -> str:
        """Where in the body the messages stand."""
        return self.fields.messages


CHAT = Route("chat", "openai", "openai")
RESPONSES = Route("responses", "openai", "responses")
MESSAGES = Route("messages", "anthropic", "anthropic")
COUNT_TOKENS = Route("count_tokens", "anthropic", "anthropic")
"""Edited like the request it counts for, so that what is counted is what will be sent."""
AZURE_CHAT = Route("chat", "azure", "openai")
AZURE_RESPONSES = Route("responses", "azure", "responses")
GEMINI_CHAT = Route("chat", "gemini", "openai")
"""Gemini's own OpenAI-compatible API."""
GENERATE = Route("generate", "gemini", "gemini")
CONVERSE = Route("converse", "bedrock", "bedrock")
"""Edited only with a bearer token: an AWS signature covers the body that the client wrote."""
OTHER: Mapping[Family, Route] = MappingProxyType(
    {
        family: Route("other", family)
        for family in ("openai", "anthropic", "gemini", "azure", "bedrock")
    }
)
"""What is passed on unread, by whose it is."""
UNKNOWN: Mapping[Family, Route] = MappingProxyType(
    {family: Route("unknown", family, known=False) for family in OTHER}
)
"""What goes nowhere, by whose words it is refused in."""

_EDITED: Mapping[str, Route] = MappingProxyType(
    {
        "/chat/completions": CHAT,
        "/responses": RESPONSES,
        "/messages": MESSAGES,
        "/messages/count_tokens": COUNT_TOKENS,
        "/openai/chat/completions": AZURE_CHAT,
        "/openai/v1/chat/completions": AZURE_CHAT,
        "/openai/responses": AZURE_RESPONSES,
        "/openai/v1/responses": AZURE_RESPONSES,
        "/v1beta/openai/chat/completions": GEMINI_CHAT,
    }
)
"""Paths without a `/v1` in front and a slash at the end."""
_OPENAI_ONLY = frozenset(
    "assistants audio batches chat chatkit completions containers conversations embeddings engines "
    "evals fine_tuning images moderations realtime rerank responses score threads tokenize uploads "
    "vector_stores videos".split()
)
"""First words of paths, behind `/v1/`, that Anthropic does not have."""
_ANTHROPIC_ONLY = frozenset({"messages", "complete", "skills", "agents", "environments"})
_SHARED = frozenset({"models", "files", "organization", "organizations", "usage"})
"""First words that say nothing about whose path it is, but that it is one of an API."""
_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/([a-z_/]+)")
_BEDROCK = re.compile(r"/model/([^/]+(?:/[^/]+)?)/(?:invoke|converse)[a-z-]*")
_GEMINI = re.compile(r"/(?:upload/)?(?:v1beta[0-9]?|v1alpha|v1internal)(?:[/:].*|)")
_METHOD = re.compile(r"/v1/(?:.*/)?models/[^/:]+:[A-Za-z]+")
_MODEL = re.compile(r"/models/([^/:]+)")
_GENERATES = (":generateContent", ":streamGenerateContent")
_SLASHES = re.compile(r"//+")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the path of a request says."""

    route: Route | None
    """None where it is a path of an API, and does not say of which."""
    model: str | None = None
    """The model or deployment that the path names."""


_NOWHERE = Asked(UNKNOWN["openai"])


def by_path(method: str, path: str) -> Asked:
    """Return what a path says about the request.

    A slash too many, and a `/v1` too few, are what clients send whose base URL was written a
    little differently: they change nothing about what is asked.

    >>> by_path("POST", "/chat/completions/").route is CHAT
    True
    >>> by_path("POST", "/openai/deployments/gpt-4o-eu/chat/completions").model
    'gpt-4o-eu'
    >>> by_path("GET", "/v1/models").route is None
    True
    >>> by_path("GET", "/admin").route.known
    False
    """
    # What is long is no path of these APIs' and must not fill a memory.
    return _by_path(method, path) if len(path) <= 512 else _NOWHERE


@lru_cache(maxsize=1_024)
def _by_path(method: str, path: str) -> Asked:
    path = _SLASHES.sub("/", path).rstrip("/")
    versioned = path.startswith("/v1/")
    short = path[3:] if versioned else path
    edited = _EDITED.get(short)
    if method == "POST" and edited is not None and not (versioned and edited.family == "azure"):
        return Asked(edited)
    if path == "/openai" or path.startswith("/openai/"):
        found = _DEPLOYMENT.fullmatch(path)
        if found is None:
            return Asked(OTHER["azure"])
        routes = {"chat/completions": AZURE_CHAT, "responses": AZURE_RESPONSES}
        route = routes.get(found[2]) if method == "POST" else None
        return Asked(route or OTHER["azure"], found[1])
    if _GEMINI.fullmatch(path) or _METHOD.fullmatch(path):
        found = _MODEL.search(path)
        generates = method == "POST" and path.endswith(_GENERATES)
        return Asked(GENERATE if generates else OTHER["gemini"], found[1] if found else None)
    found = _BEDROCK.fullmatch(path)
    if found is not None:
        converses = method == "POST" and path.endswith(("/converse", "/converse-stream"))
        return Asked(CONVERSE if converses else OTHER["bedrock"], found[1])
    # `/v1/messages;a=b` is Anthropic's, if anybody's.
    first = short.split("/", 2)[1].partition(";")[0] if "/" in short else ""
    if first in _ANTHROPIC_ONLY:
        return Asked(OTHER["anthropic"])
    if first in _OPENAI_ONLY:
        return Asked(OTHER["openai"])
    if versioned or first in _SHARED:
        found = _MODEL.search(path)
        return Asked(None, found[1] if found else None)
    return _NOWHERE


def route_of(
    asked: Asked, headers: Iterable[Header], owners: frozenset[Family], *, bearer: bool
) -> Route:
    """Return the route of a request, by its path and else by its headers and keys.

    OpenAI and Anthropic both have `/v1/models` and `/v1/files`. There the header that only one of
    them demands decides, then whose key it is. What nothing identifies goes nowhere.

    >>> models = by_path("GET", "/v1/models")
    >>> route_of(models, [(b"anthropic-version", b"2023-06-01")], frozenset(), bearer=True).family
    'anthropic'
    >>> route_of(models, [], frozenset({"gemini"}), bearer=False).family
    'gemini'
    >>> route_of(models, [], frozenset(), bearer=False).known
    False
    """
    if asked.route is not None and asked.route.known:
        return asked.route
    if any(name == b"anthropic-version" for name, _ in headers):
        family: Family = "anthropic"
    elif len(owners) == 1:
        (family,) = owners
    else:
        family = "openai"
        if not bearer or owners:
            return UNKNOWN[family]
    return UNKNOWN[family] if asked.route is not None else OTHER[family]


def bypassed(headers: Iterable[Header]) -> bool:
    """Return whether the client asked for its own bytes to be forwarded.

    >>> bypassed([(b"x-agora-bypass", b"1")]), bypassed([(b"x-agora-bypass", b"false")])
    (True, False)
    """
    return any(name == BYPASS and value.strip().lower() not in _NO for name, value in headers)


def wants_websocket(headers: Iterable[Header]) -> bool:
    """Tell whether a client asks to change to a WebSocket, which no upstream is asked for.

    >>> wants_websocket([(b"connection", b"Upgrade"), (b"upgrade", b"websocket")])
    True
    """
    return any(name == b"upgrade" and b"websocket" in value.lower() for name, value in headers)


def refusal(family: Family, status: int, message: str) -> dict[str, object]:
    """Return the body of an error in the words of the API that was asked.

    >>> refusal("anthropic", 413, "too long")["error"]
    {'type': 'request_too_large', 'message': 'too long'}
    >>> refusal("gemini", 404, "not here")["error"]
    {'code': 404, 'message': 'not here', 'status': 'NOT_FOUND'}
    """
    if family == "anthropic":
        kind = _ANTHROPIC_KINDS.get(
            status, "invalid_request_error" if status < 500 else "api_error"
        )
        return {"type": "error", "error": {"type": kind, "message": message}}
    if family == "gemini":
        word = _GEMINI_WORDS.get(status, "INVALID_ARGUMENT" if status < 500 else "UNAVAILABLE")
        return {"error": {"code": status, "message": message, "status": word}}
    if family == "bedrock":
        return {"message": message}
    kind = _OPENAI_KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    code = None if family == "openai" else str(status)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_ANTHROPIC_KINDS: Mapping[int, str] = MappingProxyType(
    {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
    }
)
_OPENAI_KINDS: Mapping[int, str] = MappingProxyType(
    {401: "authentication_error", 429: "rate_limit_error"}
)
_GEMINI_WORDS: Mapping[int, str] = MappingProxyType(
    {
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        504: "DEADLINE_EXCEEDED",
    }
)
