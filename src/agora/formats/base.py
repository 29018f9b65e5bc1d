"""The base class of wire formats, and the values that they work with."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.request import Request
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Call, Trajectory

Message = dict[str, Any]
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
_ROLE_CHARACTERS = 40
_KINDS = (
    (type(None), "null"),
    (bool, "a boolean"),
    (str, "a string"),
    (dict, "an object"),
    (list, "an array"),
    (int, "an integer"),
    (float, "a number"),
)


class MessageRole(IntEnum):
    """The part of a message in the agent's loop."""

    SYSTEM = 0
    """System and developer text, and all else outside the loop."""
    USER = 1
    AGENT = 2
    RESULT = 3
    INLINE_SYSTEM = 4
    """Text that must keep following the message it follows: system text inside Anthropic's
    messages, and messages of an unknown role."""


@dataclass(slots=True)
class ParsedMessage:
    """One message as its format reads it."""

    role: MessageRole
    tokens: int
    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, Call], ...] = ()
    """The calls, each with its id."""
    answers: tuple[str, ...] = ()
    """The ids of the calls that its results answer."""
    user_text: str | None = None
    """The user's words in a message that also carries results."""
    user_tokens: int = 0
    keep_reason: str = ""
    """Why a step with this message is never a candidate."""
    results: tuple[tuple[str, bool], ...] = ()
    """The text of each result, and True if the format marks it as an error. A single result
    without an error needs only `text`."""
    mixed: bool = False
    """True if the message holds more than text."""
    thinking_tokens: int = 0
    """The tokens of its reasoning that an edit may cost; part of `tokens`."""
    signed: bool = False
    """True if it holds signed thinking, which must come back unchanged."""
    summary: bool = False
    """True if it is the provider's summary of everything before it."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A trajectory, and the place of each of its steps in the caller's own messages."""

    messages: Any
    trajectory: Trajectory
    step_of_message: Sequence[int]
    """Per message: its step's number if the agent acts in it, minus that number if it is a result
    of the step, otherwise 0. In text formats the same per block."""
    spans: Sequence[tuple[int, int]] = ()
    """In text formats: where each block begins and ends."""
    observed: Sequence[int] = ()
    """In text formats: where the observation begins in each block; the block's end without one."""
    thinking_tokens: Sequence[int] = ()
    """Per message: the tokens of its reasoning that an edit may cost. Empty in text formats."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Messages ready to send, and each text that was put into them."""

    messages: Any
    added: tuple[str, ...]
    positions: tuple[int, ...] = ()
    """The position of each message among the caller's own; empty in text formats."""


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """One rule that messages break, at one place."""

    code: str
    position: int
    """The index of the message or item; -1 for the system prompt or the tools."""
    error: str
    """The provider's words where they are known."""
    strict: bool = False
    """True if only some models or older endpoints keep the rule."""

    def __str__(self) -> str:
        place = "the system prompt" if self.position < 0 else f"message {self.position}"
        return f"{self.code} at {place}: {self.error}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that an edit could break."""

    code: str
    sentence: str
    """The provider's words where they are known, as a `str.format` template."""
    source: str
    """The sources of the rule: public issues, SDKs, chat templates."""
    strict: bool = False
    """True if only some models or older endpoints keep it."""

    def at(self, position: int, **facts: object) -> RuleViolation:
        """Return a violation of the rule, its sentence filled in with `facts`."""
        sentence = self.sentence.format(n=position, **facts)
        return RuleViolation(self.code, position, sentence, self.strict)


SHAPE = Rule("S1", "{where}: {found} where {needed} is needed", "the provider's API reference")
"""The one rule of every format: messages have its shape."""


class ShapeError(Exception):
    """A value does not have the shape that its format prescribes."""

    def __init__(self, position: int, where: str, found: object, needed: str) -> None:
        """Describe the value at a place, `{n}` in which is the position."""
        super().__init__(position, where)
        kind = "an empty list" if found == [] else kind_of(found)
        if where.endswith(".role") and isinstance(found, str):
            kind = repr(found[:_ROLE_CHARACTERS])
        place = where.format(n=position)
        self.violation = SHAPE.at(position, where=place, found=kind, needed=needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyFields:
    """The names that the parts of a prompt have in the JSON of a request.

    Where a part has several spellings, the first one that is present counts.
    """

    messages: str
    system: tuple[str, ...] = ()
    tools: tuple[str, ...] = ("tools",)
    model: str = "model"
    server_side: tuple[str, ...] = ()
    """Fields that tell the provider to continue a history that it stores."""
    thinks: Callable[[Mapping[str, Any]], bool | None] = lambda _: None
    """Returns True if a body asks for thinking, None if it does not say."""

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


class Format:
    """A wire format. A subclass in a file of its own answers every question about one.

    Only `parse` and `render` have no default. Most formats subclass `MessageFormat`, which has
    both for prompts that are a list of messages.
    """

    name: ClassVar[str]
    """The name by which callers ask for it."""
    fields: ClassVar[BodyFields | None] = None
    """None for prompts that are one text and come in no body."""
    text_pattern: ClassVar[re.Pattern[str] | None] = None
    """The parts of a prompt that is one text."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """The rules that `check` reports, besides the shape."""
    signs_thinking: ClassVar[bool] = False
    """True if its messages may hold reasoning that the provider checks: signed or sealed."""

    # Recognition

    def matches_message(self, message: Message) -> bool:
        """Return True if only this format could hold such a message."""
        return False

    def matches_part(self, part: Message) -> bool:
        """Return True if only this format could hold such an object in a message's `content`."""
        return False

    def matches_body(self, body: Mapping[str, Any]) -> bool:
        """Return True if only this format could have such a request body."""
        return False

    # Messages

    def is_agent(self, message: Message) -> bool:
        """Return True if the message is the agent's."""
        return message.get("role") == "assistant"

    def call_ids(self, message: Message) -> list[str]:
        """Return the ids of the calls in a message."""
        return []

    def result_ids(self, message: Message) -> list[str]:
        """Return the ids of the calls that a message answers."""
        return []

    def calls_tools(self, message: Message) -> bool:
        """Return True if a message of the agent calls a tool of the client."""
        return bool(self.call_ids(message))

    def user_message(self, text: str) -> Message:
        """Return a user message with a text."""
        return {"role": "user", "content": text}

    def step_messages(
        self, call_id: str, name: str, arguments: Mapping[str, Any], result: str
    ) -> list[Message]:
        """Return the messages of a step: a call, and its result."""
        raise NotImplementedError

    def text_of(self, message: Message) -> str:
        """Return a message as text for people: reasoning, text, results, calls."""
        return ""

    def mark_for_cache(self, message: Message) -> Message:
        """Return a message with a cache mark at its end, if the format marks messages."""
        return message

    def answer(self, body: Mapping[str, Any]) -> list[Any] | None:
        """Return the messages that a response adds to the history; None for another format's."""
        return None

    # Reading, checking and writing

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        """Return the trajectory in the request's messages, which stay as they are."""
        raise NotImplementedError

    def check(self, request: Request, before: object) -> Iterator[RuleViolation]:
        """Yield the rules that a request breaks.

        Args:
            request: The request.
            before: Its messages before an edit; None if there was none.

        Raises:
            ShapeError: The messages do not have the format's shape.
        """
        return iter(())

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the messages with each step in `forms`, by its number, in that form.

        A step in place keeps its messages, with a note for each result. A marker in a message
        before them replaces the others. An untouched message is the caller's own object.
        """
        raise NotImplementedError

    # Thinking, tools

    def count_thinking(self, message: Message) -> int:
        """Return the number of blocks of checked reasoning in a message."""
        return 0

    def without_thinking(self, message: Message) -> Message:
        """Return a message without its signed thinking; itself if that has to stay."""
        return message

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Message | None:
        """Return the definition of a tool as a request lists it; None without tools."""
        return None


def kind_of(value: object) -> str:
    """Return the JSON type of `value`, with its article.

    >>> [kind_of(value) for value in (None, True, "", {}, [], 1, 0.5, ())]
    ['null', 'a boolean', 'a string', 'an object', 'an array', 'an integer', 'a number', 'a tuple']
    """
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return f"a {type(value).__name__}"


def as_list(value: object) -> list[Any]:
    """Return `value` if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def as_object(value: object) -> dict[str, Any]:
    """Return `value` if it is a dict, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def list_of_messages(value: object, where: str) -> list[Any]:
    """Return `value` if it is a list with something in it.

    Raises:
        ShapeError: The value is not such a list.
    """
    if isinstance(value, list) and value:
        return value
    raise ShapeError(0, where, value, "a list of messages")


def blocks_at(value: object, position: int, where: str) -> list[Message]:
    """Return `value` if it is a list of objects.

    Raises:
        ShapeError: The value is not such a list.
    """
    if isinstance(value, list):
        for block in value:
            if not isinstance(block, dict):
                raise ShapeError(position, where, block, "an object")
        return value
    raise ShapeError(position, where, value, "a string or a list of objects")


def text_at(value: object, position: int, where: str) -> str:
    """Return `value` if it is a string.

    Raises:
        ShapeError: The value is not a string.
    """
    if isinstance(value, str):
        return value
    raise ShapeError(position, where, value, "a string")


def object_at(value: object, position: int, where: str) -> Message:
    """Return `value` if it is an object.

    Raises:
        ShapeError: The value is not an object.
    """
    if isinstance(value, dict):
        return value
    raise ShapeError(position, where, value, "an object")


def sealed_tokens(sealed: object) -> int:
    """Return about the cost of encrypted reasoning: base64 of tokens of four bytes, or the bytes.

    >>> sealed_tokens("x" * 64), sealed_tokens(b"x" * 48)
    (12, 12)
    """
    if isinstance(sealed, str):
        return len(sealed) * 3 // 16
    return len(sealed) // 4 if isinstance(sealed, bytes) else 0


def to_json(value: object) -> str:
    """Return a value as JSON; bytes and decimals, which SDKs take, as their text."""
    return _encode(value)


def is_blank(text: str) -> bool:
    """Return True if `text` is empty or white space."""
    return not text or text.isspace()


def is_text(part: object) -> bool:
    """Return True if a content part holds text."""
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def texts_of(parts: object) -> str:
    """Return the text of content parts, joined by newlines."""
    if not isinstance(parts, list):
        return ""
    return "\n".join([part["text"] for part in parts if is_text(part)])


def thinking_setting(body: Mapping[str, Any]) -> bool | None:
    """Return True if the `thinking` field of a body turns it on; None if it does not say.

    >>> thinking_setting({"thinking": {"type": "disabled"}}), thinking_setting({})
    (False, None)
    """
    setting = body.get("thinking")
    return setting.get("type") != "disabled" if isinstance(setting, dict) else None


def _first(body: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((body[name] for name in names if body.get(name) is not None), None)
