"""Messages written back without the elided steps, markers inside the messages that stay."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from agora.adapters.base import Message, Parsed, Rendered
from agora.adapters.frames import framed
from agora.core.elide import Markers
from agora.errors import ParseError

GAP = "\n\n"
"""What stands between a message's own text and a marker."""


@dataclass(frozen=True, slots=True)
class Masked:
    """A message whose results were replaced, and how many there were."""

    message: Message
    results: int


class Wire(Protocol):
    """How one format takes text into a message."""

    def holds(self, message: Message) -> bool:
        """Tell whether a marker can be attached: a user message or a result, with room for text."""
        ...

    def speaks(self, message: Message) -> bool:
        """Tell whether what is attached to this message stands among the user's words."""
        ...

    def attach(self, message: Message, text: str) -> Message:
        """Return the message with `text` after its own content."""
        ...

    def mask(self, message: Message, first: str, others: str) -> Masked:
        """Return the message with the content of its first result `first`, of others `others`."""
        ...


def render_messages(
    parsed: Parsed,
    elided: Mapping[int, str],
    markers: Markers,
    wire: Wire,
    noted: Collection[int] = (),
) -> Rendered:
    """Write the messages without the elided steps, markers inside the messages that stay.

    Of those in `noted`, and of those that the format lets nobody remove, the
    action stays and each result is replaced.
    """
    steps = parsed.trajectory.steps
    messages: list[Message] = []
    positions: list[int] = []
    notes: dict[int, list[str]] = {}
    added: list[str] = []
    run: list[tuple[int, str]] = []
    seen: set[int] = set()
    holder = -1
    for position, message in enumerate(parsed.messages):
        owner = parsed.owners[position]
        number = abs(owner)
        line = elided.get(number)
        masked = line is not None and (steps[number - 1].form == "mask" or number in noted)
        if line is not None and not masked:
            if number not in seen:
                seen.add(number)
                run.append((number, line))
            continue
        if run:
            if holder < 0:
                raise ParseError(
                    0, f"leaves no message before step {run[0][0]} that could hold its marker"
                )
            # Once for each message is enough: the sentence costs tokens in every prompt.
            signed = holder not in notes and wire.speaks(messages[holder])
            notes.setdefault(holder, []).append(markers.run(run, signed=signed))
            run = []
        if masked and owner < 0:
            assert line is not None  # noqa: S101 - masked says so
            others = markers.mask(number, "")
            first = others if number in seen else markers.mask(number, line)
            if number in noted and not steps[number - 1].calls:
                first = framed(first, steps[number - 1].observation)
            seen.add(number)
            replaced = wire.mask(message, first, others)
            message = replaced.message
            added += [first, *(others,) * (replaced.results - 1)]
        messages.append(message)
        positions.append(position)
        if owner <= 0 and wire.holds(message):
            holder = len(messages) - 1
    for at, texts in notes.items():
        text = GAP.join(texts)
        messages[at] = wire.attach(messages[at], text)
        added.append(f"{GAP}{text}")
    return Rendered(messages, tuple(added), tuple(positions))


def append_text(content: object, text: str, part_type: str) -> object:
    """Return message content with `text` added: to a string, or as one more part of a list."""
    if isinstance(content, str):
        return f"{content}{GAP}{text}" if content else text
    parts = list(content) if isinstance(content, list) else []
    return [*parts, {"type": part_type, "text": text}]
