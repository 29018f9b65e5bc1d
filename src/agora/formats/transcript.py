"""Role-marker transcripts: `[SYSTEM] … [USER] … [ASSISTANT] …`, the paper's own format."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.request import Request
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.formats.base import Format, Parsed, Rendered, RuleViolation, text_at
from agora.formats.text_agents import split_thought

_MARK = re.compile(r"\[(SYSTEM|USER|ASSISTANT)\]")


class _Block(NamedTuple):
    """A piece of the prompt: its place, the beginning of its text, its role."""

    start: int
    text_start: int
    end: int
    acts: bool
    """True for the agent's words, False for an observation."""


class Transcript(Format):
    """A prompt of role marks.

    The first `[USER]` block is the task, later ones are observations. Marks count at the start of
    a line; in a transcript written on one line, after white space. A `[SYSTEM]` or `[USER]` mark
    inside an observation opens nothing new. An `[ASSISTANT]` line inside one would: whoever writes
    transcripts moves such lines in by a space.
    """

    name = "transcript"
    text_pattern = re.compile(r"(?:^|\s)\[(?:SYSTEM|USER|ASSISTANT)\]")

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        text: str = request.messages
        marks = _marks(text)
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        first_user = next((i for i, mark in enumerate(marks) if mark[1] == "USER"), None)
        if first_user is None:
            return _parsed(text, len(text), text, (), request.system, counter)
        opening = next(
            (i for i in range(first_user, len(marks)) if marks[i][1] == "ASSISTANT"), len(marks)
        )
        preamble_end = ends[opening - 1]
        task = text[marks[first_user].end() : preamble_end].strip()
        blocks = [
            _Block(mark.start(), mark.end(), end, mark[1] == "ASSISTANT")
            for mark, end in zip(marks[opening:], ends[opening:], strict=True)
        ]
        return _parsed(text, preamble_end, task, blocks, request.system, counter)

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the transcript with each step in its form.

        A run's marker follows the block before it; a note replaces the observation.
        """
        text: str = parsed.messages
        pieces: list[str] = []
        added: list[str] = []
        run: list[Form] = []
        before = 0
        blocks = zip(parsed.step_of_message, parsed.spans, parsed.observed, strict=True)
        for number, (start, end), observed in blocks:
            form = forms.get(number)
            if form is not None and not form.in_place:
                run.append(form)
                continue
            if run:
                # After the preamble it follows the task; elsewhere an observation.
                pieces.append(markers.run(run, in_user_text=not before) + _gap(pieces[-1]))
                added.append(pieces[-1])
                run = []
            if form is not None:
                gap = "" if text[observed - 1].isspace() else " "
                note = gap + markers.note(number, form.text) + _gap(text[observed:end])
                added.append(note)
                pieces += [text[start:observed], note]
            else:
                pieces.append(text[start:end])
            before = number
        return Rendered("".join(pieces), tuple(added))

    def check(self, request: Request, before: object) -> Iterator[RuleViolation]:
        text_at(request.messages, 0, "text")
        return iter(())


def _marks(text: str) -> list[re.Match[str]]:
    marks = list(_MARK.finditer(text))
    at_line_start = [m for m in marks if m.start() == 0 or text[m.start() - 1] == "\n"]
    if len(at_line_start) > 1:
        return at_line_start
    return [m for m in marks if m.start() == 0 or text[m.start() - 1].isspace()]


def _parsed(
    text: str,
    preamble_end: int,
    task: str,
    blocks: Sequence[_Block],
    system: object,
    counter: TokenCounter,
) -> Parsed:
    """Return the trajectory of a prompt, by its blocks after the preamble.

    A step is a run of acting blocks with the run of observing blocks after it. Acting blocks at
    the end have no observation yet and are pending.
    """
    count = counter.count
    steps: list[Step] = []
    owners, spans, observed = [0], [(0, preamble_end)], [preamble_end]
    pending_tokens = 0
    at = 0
    while at < len(blocks):
        observing = at
        while observing < len(blocks) and blocks[observing].acts:
            observing += 1
        end = observing
        while end < len(blocks) and not blocks[end].acts:
            end += 1
        span = (blocks[at].start, blocks[end - 1].end)
        tokens = count(text[span[0] : span[1]])
        spans.append(span)
        if observing == end:
            pending_tokens = tokens
            owners.append(0)
            observed.append(span[1])
        else:
            thought, action = split_thought(_joined(text, blocks[at:observing]))
            number = len(steps) + 1
            owners.append(number)
            observed.append(blocks[observing].text_start)
            steps.append(
                Step(
                    number=number,
                    action=action,
                    observation=_joined(text, blocks[observing:end]),
                    tokens=tokens,
                    thought=thought,
                    action_tokens=count(text[span[0] : observed[-1]]) + 1,
                    joined=observing - at > 1,
                )
            )
        at = end
    preamble = text[:preamble_end]
    before = system if isinstance(system, str) else ""
    trajectory = Trajectory(
        task=task,
        preamble=f"{before}\n{preamble}" if before else preamble,
        preamble_tokens=count(preamble) + count(before),
        steps=tuple(steps),
        pending_tokens=pending_tokens,
    )
    return Parsed(text, trajectory, owners, spans, observed)


def _joined(text: str, blocks: Sequence[_Block]) -> str:
    return "\n".join(text[block.text_start : block.end].strip() for block in blocks)


def _gap(block: str) -> str:
    """Return the white space that ends a block, so that the next one stays as far away."""
    return block[len(block.rstrip()) :] or "\n"
