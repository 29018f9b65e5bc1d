"""One wire format, one object: everything that is known of it hangs here."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora.adapters.base import Adapter, Message
from agora.adapters.rules.catalogue import Broken
from agora.core.request import Request

Check = Callable[[Request, object], list[Broken]]
"""Returns every rule that a request breaks; the other argument is its messages before an edit."""


def _no_rules(request: Request, before: object) -> list[Broken]:  # noqa: ARG001
    return []


def _never(value: Mapping[str, Any]) -> bool:  # noqa: ARG001
    return False


def _not_said(body: Mapping[str, Any]) -> bool | None:  # noqa: ARG001
    return None


def _acts(message: Message) -> bool:
    return message.get("role") == "assistant"


def _no_ids(message: Message) -> list[str]:  # noqa: ARG001
    return []


def _said(text: str) -> Message:
    return {"role": "user", "content": text}


def _no_answer(body: Mapping[str, Any]) -> list[Any] | None:  # noqa: ARG001
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyFields:
    """What the JSON of a request calls the parts of a prompt.

    Where there are several names for one, they are its spellings, and the first that is there
    counts.
    """

    messages: str
    system: tuple[str, ...] = ()
    tools: tuple[str, ...] = ("tools",)
    thinking: tuple[str, ...] = ()
    """What `thinks` reads."""
    model: str = "model"
    server_side: tuple[str, ...] = ()
    """Fields by which the provider is told to take a history that it holds itself."""
    thinks: Callable[[Mapping[str, Any]], bool | None] = _not_said
    """Says whether a body asks for thinking; None if it does not say."""
    drops_thinking: bool = False
    """Whether a body may ask, under `thinking`, for blocks to be dropped that do not hold."""

    @property
    def beside(self) -> tuple[str, ...]:
        """The fields outside the messages that an edit depends on."""
        return (*self.system, *self.tools, *self.thinking)

    def request(self, format: str, body: Mapping[str, Any]) -> Request:
        """Return the request in a body of this format."""
        return Request(
            format=format,
            messages=body[self.messages],
            field=self.messages,
            body=body,
            model=body.get(self.model),
            system=_first(body, self.system),
            tools=_first(body, self.tools),
            thinking=self.thinks(body),
            server_side=any(body.get(name) for name in self.server_side),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A wire format: how requests in it are told from others, read, written, checked.

    Only the adapter is needed. What else is given makes more of the package work with it: `fields`
    the commands and the gateway, `tells_...` detection, `check` the guard behind every compression,
    `recall` the recall tool, `answer` the logs with responses next to the requests.
    """

    adapter: Adapter
    check: Check = _no_rules
    fields: BodyFields | None = None
    """None for prompts that are one text and come in no body."""
    tells_message: Callable[[Message], bool] = _never
    """Says whether only this format could hold such a message."""
    tells_part: Callable[[Message], bool] = _never
    """The same of an object in the list that a message has for `content`."""
    tells_body: Callable[[Mapping[str, Any]], bool] = _never
    """The same of a request's body."""
    mark: re.Pattern[str] | None = None
    """What a prompt that is one text has in it."""
    acts: Callable[[Message], bool] = _acts
    """Says whether a message is the agent's."""
    call_ids: Callable[[Message], Sequence[str]] = _no_ids
    """Returns the ids of the calls in a message."""
    said: Callable[[str], Message] = _said
    """Returns a message in which the user says a text."""
    answer: Callable[[Mapping[str, Any]], list[Any] | None] = _no_answer
    """Returns the messages that a response adds to the history; None if it is of another format."""
    recall: Mapping[str, Any] | None = None
    """The definition of the recall tool, as it stands among a request's tools."""
    signs_thinking: bool = False
    """Whether its messages may hold a model's signed thinking."""

    @property
    def name(self) -> str:
        """The name by which callers ask for this format."""
        return self.adapter.name


def _first(body: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((body[name] for name in names if body.get(name) is not None), None)
