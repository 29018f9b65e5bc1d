"""Messages written again: each step in its form, markers inside the messages that stay."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.errors import ParseError
from agora.formats.base import Message, Parsed, Rendered
from agora.formats.text_agents import in_template

if TYPE_CHECKING:
    from agora.formats.message_format import MessageFormat

GAP = "\n\n"
"""The separator between a message's own text and a marker."""


def render_messages(
    parsed: Parsed, forms: Mapping[int, Form], markers: Markers, editor: "MessageFormat"
) -> Rendered:
    """Write the messages: steps that are not in place go, their markers into messages that stay.

    A marker goes into the last result before its steps, and among a user's words only if no result
    stays. A run of steps may contain messages between them, as long as no nearer message could hold
    its marker.
    """
    steps = parsed.trajectory.steps
    output = _Output(markers, editor)
    added: list[str] = []
    positions: list[int] = []
    notes: dict[int, Iterator[str]] = {}
    for position, message in enumerate(parsed.messages):
        owner = parsed.step_of_message[position]
        number = abs(owner)
        form = forms.get(number)
        if form is not None and not form.in_place:
            output.leave_out(form)
            continue
        if form is not None and owner < 0:
            if number not in notes:
                notes[number] = _notes(steps[number - 1], form, markers)
            texts = list(islice(notes[number], editor.result_count(message)))
            message = editor.replace_results(message, texts)
            added += texts
        output.write(message, owner)
        positions.append(position)
    messages, attached = output.finish()
    return Rendered(messages, (*added, *attached), tuple(positions))


class _Output:
    """The messages that stay, and which of them holds the marker of each run of others."""

    def __init__(self, markers: Markers, editor: "MessageFormat") -> None:
        self._markers = markers
        self._editor = editor
        self._messages: list[Message] = []
        self._run: dict[int, Form] = {}
        self._attached: dict[int, list[str]] = {}
        self._holder = -1

    def leave_out(self, form: Form) -> None:
        """Count a step as removed, once for all of its messages."""
        self._run.setdefault(form.number, form)

    def write(self, message: Message, owner: int) -> None:
        """Add a message that stays."""
        accepts = (
            owner <= 0
            and self._editor.accepts_marker(message)
            and (owner < 0 or self._in_user_text)
        )
        if owner or accepts:
            self._mark()
        self._messages.append(message)
        if accepts:
            self._holder = len(self._messages) - 1

    def finish(self) -> tuple[list[Message], list[str]]:
        """Return the messages with their markers, and the texts that were appended."""
        self._mark()
        texts = {at: GAP.join(markers) for at, markers in self._attached.items()}
        for at, text in texts.items():
            self._messages[at] = self._editor.append_text(self._messages[at], text)
        return self._messages, [f"{GAP}{text}" for text in texts.values()]

    @property
    def _in_user_text(self) -> bool:
        """True if no result could hold a marker: only a user's words, if anything."""
        return self._holder < 0 or self._editor.is_user_text(self._messages[self._holder])

    def _mark(self) -> None:
        """Close a run of removed steps with its marker."""
        if not self._run:
            return
        if self._holder < 0:
            raise ParseError(
                0, f"leaves no message before step {min(self._run)} that could hold its marker"
            )
        # Once for each message is enough: the sentence costs tokens in every prompt.
        in_user_text = self._holder not in self._attached and self._in_user_text
        marker = self._markers.run(tuple(self._run.values()), in_user_text=in_user_text)
        self._attached.setdefault(self._holder, []).append(marker)
        self._run.clear()


def _notes(step: Step, form: Form, markers: Markers) -> Iterator[str]:
    """Yield the notes of a step in the order of its results, then empty ones without end."""
    first, *others = [place.result or "" for place in form.places]
    note = markers.note(step.number, first)
    yield note if step.calls else in_template(note, step.observation)
    for text in others:
        yield markers.note(step.number, text)
    while True:
        yield markers.note(step.number, "")


def move_cache_marks(
    rendered: Rendered,
    parsed: Parsed,
    forms: Mapping[int, Form],
    *,
    mark_of: Callable[[Message], object],
    with_mark: Callable[[Message, object], Message | None],
) -> Rendered:
    """Set the cache mark of each removed message on the nearest message before it that stayed.

    `mark_of` returns a message's last mark or None; `with_mark` the message with a mark at its
    end, itself if it cannot take one, or None if a message further up is to be tried.
    """
    messages = list(rendered.messages)
    for position, owner in enumerate(parsed.step_of_message):
        form = forms.get(abs(owner))
        mark = mark_of(parsed.messages[position]) if form and not form.in_place else None
        if mark is not None:
            at = bisect_left(rendered.positions, position) - 1
            # The task, which precedes every step, takes a marker.
            while (marked := with_mark(messages[at], mark)) is None:
                at -= 1
            messages[at] = marked
    return replace(rendered, messages=messages)


def tokens_after(
    trajectory: Trajectory, forms: Mapping[int, Form], rendered: Rendered, counter: TokenCounter
) -> int:
    """Return the tokens of a prompt with its steps in their forms."""
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
