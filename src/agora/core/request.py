"""A request to a model: its messages and the fields around them."""

from dataclasses import dataclass
from typing import Any, Literal

from agora.core.binding import binds

Observations = Literal["user", "none"]
"""The plain user messages that are observations: `"user"`, all but the first; `"none"`, none.
By default a user message is an observation if only a program writes such a frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to a model, in one wire format. Adapters parse it, validators check it.

    `None` always means that the caller did not say.
    """

    messages: Any
    """Messages, input items, contents or one text: whatever the format calls its history."""
    format: str
    """The wire format's name."""
    system: object = None
    """System text that the format keeps outside the messages."""
    tools: object = None
    thinking: bool | None = None
    """True if extended thinking is on."""
    observations: Observations | None = None
    model: str | None = None
    field: str = ""
    """The field of the messages in the body, such as `messages`; empty without a body."""
    body: Any = None
    """The whole request body that the messages were read from, if there was one."""
    server_side: bool = False
    """True if the provider keeps earlier messages itself, so that these must not be edited."""
    bound: bool | None = None
    """True if the model binds thinking to the prefix; None: by its name."""

    edited_at: int = 0
    """How many messages the caller's list had when these were edited; 0 if they were not, or if
    that is not known. Thinking that is older no longer holds on a model that binds it."""

    @property
    def is_bound(self) -> bool:
        """True if an edit invalidates the thinking after it."""
        return binds(self.model) if self.bound is None else self.bound

    def with_messages(self, messages: Any) -> Any:
        """Return the body with other messages and everything else unchanged.

        >>> body = {"model": "m", "messages": ["long"]}
        >>> request = Request(messages=["long"], format="openai", field="messages", body=body)
        >>> request.with_messages(["short"])
        {'model': 'm', 'messages': ['short']}
        """
        return {**self.body, self.field: messages} if self.field else messages
