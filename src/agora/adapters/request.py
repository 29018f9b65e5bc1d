"""Whole request bodies: the messages in one, and everything that stands beside them."""

from dataclasses import dataclass
from typing import Any

from agora.adapters.detect import detect
from agora.errors import UnknownFormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request body taken apart."""

    format: str
    messages: Any
    field: str
    """Where the messages stand in the body: `messages` or `input`; empty when there is no body."""
    body: Any
    model: str | None = None
    system: object = None
    tools: object = None
    thinking: bool | None = None
    server_side: bool = False
    """Whether the provider holds earlier messages itself, so that these must not be edited."""

    def with_messages(self, messages: Any) -> Any:
        """Return the body with other messages, everything else as it was."""
        return {**self.body, self.field: messages} if self.field else messages


def read_request(body: Any, *, format: str | None = None) -> Request:
    """Return the request in `body`: a request's JSON, or bare messages in any format.

    >>> read_request({"model": "m", "input": "hi", "previous_response_id": "r"}).server_side
    True
    """
    if not isinstance(body, dict):
        return Request(format=format or detect(body), messages=body, field="", body=body)
    if "input" in body:
        return Request(
            format="responses",
            messages=body["input"],
            field="input",
            body=body,
            model=body.get("model"),
            system=body.get("instructions"),
            tools=body.get("tools"),
            server_side=bool(body.get("previous_response_id") or body.get("conversation")),
        )
    if "messages" not in body:
        raise UnknownFormatError(
            "the body has neither messages nor input", ("openai", "responses", "anthropic")
        )
    system = body.get("system")
    found = format or ("anthropic" if system else detect(body["messages"]))
    return Request(
        format=found,
        messages=body["messages"],
        field="messages",
        body=body,
        model=body.get("model"),
        system=system,
        tools=body.get("tools"),
        thinking=_thinking(body.get("thinking")),
    )


def _thinking(setting: object) -> bool | None:
    if not isinstance(setting, dict):
        return None
    return setting.get("type") != "disabled"
