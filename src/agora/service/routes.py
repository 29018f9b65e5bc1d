"""Find by the path alone if a request holds a prompt, and in which format."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agora.formats import BodyFields, format_named

Family = Literal["openai", "anthropic", "gemini", "bedrock"]
"""The API family of a request."""
FAMILIES: tuple[Family, ...] = ("openai", "anthropic", "gemini", "bedrock")
BYPASS = "x-agora-bypass"
_NO = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Route:
    """One kind of request that holds a prompt."""

    name: str
    """The label in metrics and logs."""
    family: Family
    format: str
    """The wire format of its messages."""
    model: str = ""
    """The model, if the path names it."""
    answers: bool = True
    """True if a model answers. A request that only counts tokens is edited and not billed."""

    @property
    def fields(self) -> BodyFields:
        """The names of the prompt's fields in the body."""
        fields = format_named(self.format).fields
        assert fields is not None  # noqa: S101 - every format of a route has them
        return fields


_BY_END = (
    (re.compile(r"/chat/completions$"), Route("chat", "openai", "openai")),
    (re.compile(r"/responses$"), Route("responses", "openai", "responses")),
    (re.compile(r"^(?!.*/threads/).*/messages$"), Route("messages", "anthropic", "anthropic")),
    (
        re.compile(r"/messages/count_tokens$"),
        Route("count_tokens", "anthropic", "anthropic", answers=False),
    ),
)
_GEMINI = re.compile(r"/models/([^/:]+):(?:streamG|g)enerateContent$")
_BEDROCK = re.compile(r"/model/([^/]+)/converse(?:-stream)?$")
_MAX_PATH = 512


@lru_cache(maxsize=1_024)
def route_of(method: str, path: str) -> Route | None:
    """Return the route of a request, or None if it holds no prompt that could be edited.

    >>> route_of("POST", "/v1/chat/completions").format
    'openai'
    >>> route_of("POST", "/v1beta/models/gemini-3-pro:streamGenerateContent").model
    'gemini-3-pro'
    >>> route_of("GET", "/v1/models") is None
    True
    """
    if method != "POST" or len(path) > _MAX_PATH:
        return None
    path = path.rstrip("/")
    for end, route in _BY_END:
        if end.search(path):
            # Gemini's own API for OpenAI's clients takes Gemini's keys.
            gemini = route.format == "openai" and "/v1beta/openai/" in path
            return Route(route.name, "gemini", route.format) if gemini else route
    if found := _GEMINI.search(path):
        return Route("generate", "gemini", "gemini", found[1])
    if found := _BEDROCK.search(path):
        return Route("converse", "bedrock", "bedrock", found[1])
    return None


def why_not_by_head(route: Route, headers: Mapping[str, str]) -> str:
    """Return the reason in a request's head to send it unchanged, or an empty text.

    `headers` have names in lower case.

    >>> why_not_by_head(route_of("POST", "/v1/messages"), {"x-agora-bypass": "1"})
    'bypass'
    """
    if headers.get(BYPASS, "").strip().lower() not in _NO:
        return "bypass"
    bearer = headers.get("authorization", "")[:7].lower() == "bearer "
    if route.format == "bedrock" and not bearer:
        # An AWS signature covers the body that the client wrote.
        return "signed_body"
    return ""


def error_body(family: Family | None, status: int, message: str) -> dict[str, object]:
    """Return the body of an error in the shape of the API family.

    >>> error_body("anthropic", 502, "no answer")["error"]
    {'type': 'api_error', 'message': 'no answer'}
    """
    if family == "anthropic":
        kind = "invalid_request_error" if status < 500 else "api_error"
        return {"type": "error", "error": {"type": kind, "message": message}}
    if family == "gemini":
        word = "INVALID_ARGUMENT" if status < 500 else "UNAVAILABLE"
        return {"error": {"code": status, "message": message, "status": word}}
    if family == "bedrock":
        return {"message": message}
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
