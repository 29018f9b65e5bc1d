"""Messages written back with each step as its form says, markers inside those that stay."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Protocol

from agora.adapters.base import Message, Parsed, Rendered
from agora.adapters.frames import framed
from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.errors import ParseError

GAP = "\n\n"
"""What stands between a message's own text and a marker."""


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

    def results(self, message: Message) -> int:
        """Return how many results a message carries; 1 where all of it is one."""
        ...

    def note(self, message: Message, notes: list[str]) -> Message:
        """Return the message with each of its results replaced by a note."""
        ...


def render_messages(
    parsed: Parsed,
    forms: Mapping[int, Form],
    markers: Markers,
    wire: Wire,
) -> Rendered:
    """Write the messages: steps that are not in place go, their markers into what stays.

    A marker stands in the last result before its steps, and among a user's words only where no
    result stays. A run of steps goes on through what is said between them, as long as nothing
    nearer could hold its marker.
    """
    steps = parsed.trajectory.steps
    written = _Written(markers, wire)
    added: list[str] = []
    positions: list[int] = []
    notes: dict[int, Iterator[str]] = {}
    for position, message in enumerate(parsed.messages):
        owner = parsed.owners[position]
        number = abs(owner)
        form = forms.get(number)
        if form is not None and not form.in_place:
            written.leave_out(form)
            continue
        if form is not None and owner < 0:
            if number not in notes:
                notes[number] = _notes(steps[number - 1], form, markers)
            own = list(islice(notes[number], wire.results(message)))
            message = wire.note(message, own)
            added += own
        written.write(message, owner)
        positions.append(position)
    messages, attached = written.finish()
    return Rendered(messages, (*added, *attached), tuple(positions))


class _Written:
    """The messages that stay, and which of them holds the marker of each run of others."""

    def __init__(self, markers: Markers, wire: Wire) -> None:
        self._markers = markers
        self._wire = wire
        self._messages: list[Message] = []
        self._run: dict[int, Form] = {}
        self._attached: dict[int, list[str]] = {}
        self._holder = -1

    def leave_out(self, form: Form) -> None:
        """Count a step as removed, once for all of its messages."""
        self._run.setdefault(form.number, form)

    def write(self, message: Message, owner: int) -> None:
        """Add a message that stays."""
        takes = owner <= 0 and self._wire.holds(message) and (owner < 0 or self._spoken)
        if owner or takes:
            self._mark()
        self._messages.append(message)
        if takes:
            self._holder = len(self._messages) - 1

    def finish(self) -> tuple[list[Message], list[str]]:
        """Return the messages with their markers, and what was attached."""
        self._mark()
        texts = {at: GAP.join(markers) for at, markers in self._attached.items()}
        for at, text in texts.items():
            self._messages[at] = self._wire.attach(self._messages[at], text)
        return self._messages, [f"{GAP}{text}" for text in texts.values()]

    @property
    def _spoken(self) -> bool:
        """Whether no result could hold a marker: only a user's words, if anything."""
        return self._holder < 0 or self._wire.speaks(self._messages[self._holder])

    def _mark(self) -> None:
        """Close a run of removed steps with its marker."""
        if not self._run:
            return
        if self._holder < 0:
            raise ParseError(
                0, f"leaves no message before step {min(self._run)} that could hold its marker"
            )
        # Once for each message is enough: the sentence costs tokens in every prompt.
        in_user_text = self._holder not in self._attached and self._spoken
        marker = self._markers.run(tuple(self._run.values()), in_user_text=in_user_text)
        self._attached.setdefault(self._holder, []).append(marker)
        self._run.clear()


def _notes(step: Step, form: Form, markers: Markers) -> Iterator[str]:
    """Yield the notes of a step, in the order of its results; a bare one where it has no more."""
    first, *others = [place.result or "" for place in form.places]
    note = markers.note(step.number, first)
    yield note if step.calls else framed(note, step.observation)
    for said in others:
        yield markers.note(step.number, said)
    while True:
        yield markers.note(step.number, "")


def tokens_after(
    trajectory: Trajectory,
    forms: Mapping[int, Form],
    rendered: Rendered,
    counter: TokenCounter,
) -> int:
    """Return what a prompt costs once its steps stand as their forms say."""
    removed = 0
    for number, form in forms.items():
        step = trajectory.steps[number - 1]
        removed += step.tokens - (step.action_tokens if form.in_place else 0)
    # One token more for each text that was added, for the gap before it.
    added = sum(counter.count(text) + 1 for text in rendered.added)
    return trajectory.tokens - removed + added


def append_text(content: object, text: str, part_type: str) -> object:
    """Return message content with `text` added: to a string, or as one more part of a list."""
    if isinstance(content, str):
        return f"{content}{GAP}{text}" if content else text
    parts = list(content) if isinstance(content, list) else []
    return [*parts, {"type": part_type, "text": text}]
