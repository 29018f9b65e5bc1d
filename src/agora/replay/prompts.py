"""The prompts of a trajectory's calls, as the segments that a cache compares."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.prefix_cache import Segment
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.formats.render import GAP
from agora.formats.text_agents import in_template
from agora.logs.moments import Moment

_CUTS = 2
_NEAR = 1.01
"""Sizes are estimates: a prefix that ends this near to a place in the prompt ends there."""


class Prompt(NamedTuple):
    """The prompt of one call."""

    segments: list[Segment]
    elided: Sequence[Form]
    edited: bool
    """True if it does not continue the prompt before."""


class _Edited(NamedTuple):
    """The prompt that was written last: its segments without the elided steps."""

    elided: Sequence[Form]
    size: int
    segments: list[Segment]


class Writer:
    """Writes the prompts of one trajectory as the segments that a cache compares.

    `markers` returns the writer of an edit's markers, by the number of its first elided step.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        markers: Callable[[int], Markers],
        counter: TokenCounter,
        held: Iterable[int] = (),
    ) -> None:
        self._markers = markers
        self._counter = counter
        self._written: dict[str, Segment] = {}
        self._last = _Edited((), 0, [])
        self._bound = trajectory.bound
        self._whole = _preamble(trajectory, held)
        self._first = len(self._whole)
        self._results = {step.number: max(1, len(step.calls)) for step in trajectory.steps}
        self._steps: list[Step | None] = [None] * self._first
        """For each of the whole prompt's segments the step that it is, if it is one."""
        self._speaks: list[bool | None] = [True] * self._first
        """For each of them True if a marker in it is among the user's words; None if it can hold
        none."""
        said = 0
        for done in range(len(trajectory.steps) + 1):
            if done:
                step = trajectory.steps[done - 1]
                self._whole.append(Segment(step.number, step.tokens))
                self._steps.append(step)
                self._speaks.append(not step.calls)
            while said < len(trajectory.utterances) and trajectory.utterances[said].after <= done:
                self._whole.append(Segment(("said", said), trajectory.utterances[said].tokens))
                self._steps.append(None)
                self._speaks.append(trajectory.utterances[said].by_user or None)
                said += 1

    def prompt(self, moment: Moment, elided: Sequence[Form], epoch: int = 0) -> list[Segment]:
        """Return the prompt of a call without the steps elided by the edit after `epoch` steps.

        A marker ends the message before it, so it is a segment of its own
        right after that message. Where thinking is bound to the
        prefix, steps before the edit have none.
        """
        size = self._first + moment.steps + moment.said
        segments = self._whole[:size] if not elided else self._edited(size, elided, epoch)
        # Agents that cache mark the end of the system text, and the newest message.
        newest = segments[-1]
        segments[-1] = Segment(newest.key, newest.tokens, breakpoint=True)
        return segments

    def gains(self, elided: Sequence[Form], epoch: int) -> bool:
        """Return True if eliding these steps after `epoch` steps makes the prompt shorter.

        As in the compressor's count, each inserted text has one more token, for the gap.
        """
        size = next(at for at, s in enumerate(self._steps, 1) if s and s.number == epoch)
        edited = self._edited(size, elided, epoch)
        texts = sum(self._texts_in(segment) for segment in edited)
        before = sum(segment.tokens for segment in self._whole[:size])
        return sum(segment.tokens for segment in edited) + texts < before

    def _texts_in(self, segment: Segment) -> int:
        """Return how many texts of ours are in a segment: a marker, or notes in a step."""
        match segment.key:
            case str():
                return 1
            case (int() as number, str()):
                return self._results[number]
            case _:
                return 0

    def _edited(self, size: int, elided: Sequence[Form], epoch: int) -> list[Segment]:
        """Return the first segments without the elided steps.

        Between two edits the prompt only grows at its end, so only that is written again.
        """
        last = self._last
        if elided is not last.elided or size < last.size:
            rests = {rest.number: rest for rest in elided}
            last = _Edited(elided, size, self._without(size, rests, epoch))
        elif size > last.size:
            # Steps that an edit elided came before it.
            last = _Edited(elided, size, last.segments + self._whole[last.size : size])
        self._last = last
        return last.segments[:]

    def _without(self, size: int, elided: Mapping[int, Form], epoch: int) -> list[Segment]:
        segments: list[Segment] = []
        run: list[Form] = []
        markers = self._markers(min(elided, default=0))
        # The place of a marker, and True if that is among the user's words and if the marker needs
        # the note about it: once for each message.
        held, spoken, signs = 0, True, True
        for segment, step, speaks in zip(
            self._whole[:size], self._steps, self._speaks, strict=False
        ):
            rest = elided.get(step.number) if step is not None else None
            if step is not None and self._bound and step.number <= epoch and step.thinking_tokens:
                step = step.without_thinking()
                segment = Segment(("bare", step.number), step.tokens)
            if rest is not None and not rest.in_place:
                run.append(rest)
                continue
            takes = speaks is not None and (step is not None or spoken)
            if run and takes:
                segments.insert(held, self._marker(f"{GAP}{markers.run(run, in_user_text=signs)}"))
                held, run, signs = held + 1, [], False
            if step is None or rest is None:
                segments.append(segment)
            else:
                notes = self._notes(step, rest, markers)
                tokens = step.action_tokens + sum(self._marker(text).tokens for text in notes)
                segments.append(Segment((step.number, notes[0]), tokens))
            if takes:
                held = len(segments)
                spoken = signs = bool(speaks)
        if run:
            segments.insert(held, self._marker(f"{GAP}{markers.run(run, in_user_text=signs)}"))
        return segments

    def _notes(self, step: Step, rest: Form, markers: Markers) -> list[str]:
        """Return the notes of a step, one for each of its results, as formats write them."""
        said = [place.result or "" for place in rest.places]
        said += [""] * (self._results[step.number] - len(said))
        notes = [markers.note(step.number, one) for one in said]
        if not step.calls:
            notes[0] = in_template(notes[0], step.observation)
        return notes

    def _marker(self, text: str) -> Segment:
        """Return the segment of a marker. Its text is counted once, it comes back at many calls."""
        if text not in self._written:
            self._written[text] = Segment(text, self._counter.count(text))
        return self._written[text]


def held_prefix(segments: Sequence[Segment], tokens: int) -> list[Segment]:
    """Return the beginning of a prompt within a number of cached tokens, in whole segments."""
    held: list[Segment] = []
    size = 0
    for segment in segments:
        size += segment.tokens
        if size > tokens * _NEAR:
            break
        held.append(segment)
    if held:
        held[-1] = Segment(held[-1].key, held[-1].tokens, breakpoint=True)
    return held


def _preamble(trajectory: Trajectory, held: Iterable[int]) -> list[Segment]:
    """Return the segments before the first step, cut where a cache held only a part.

    As clients do, at most three places are marked, the end of the system text being the last of
    them: the newest message takes the fourth. The task is marked only while it is the newest.
    """
    tokens = trajectory.preamble_tokens
    system = tokens - trajectory.unmarked_tokens
    cuts = sorted({cut for cut in held if 0 < cut < tokens and cut != system})[:_CUTS]
    marks = sorted({*cuts, system} - {0})
    ends = sorted({0, *marks, tokens})
    return [
        Segment(("preamble", at), end - start, breakpoint=end in marks)
        for at, (start, end) in enumerate(pairwise(ends))
    ]
