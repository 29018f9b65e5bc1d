"""Prompts that are one string, cut into blocks: what transcripts and ReAct text share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agora.adapters.base import Context, Parsed, Rendered
from agora.adapters.spoken import split_thought
from agora.core.elide import Markers
from agora.core.trajectory import Step, Trajectory


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the prompt: where it lies, where its text begins, who speaks."""

    start: int
    text_start: int
    end: int
    acts: bool
    """True for what the agent says, False for what it observes."""


def parse_blocks(
    text: str, preamble_end: int, task: str, blocks: Sequence[Block], context: Context
) -> Parsed:
    """Return the trajectory of a prompt whose blocks after the preamble are given.

    A step is a run of acting blocks with the run of observing blocks after
    it. Acting blocks at the end have no observation yet and are pending.
    """
    count = context.counter.count
    steps: list[Step] = []
    owners, spans = [0], [(0, preamble_end)]
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
        else:
            thought, action = split_thought(_joined(text, blocks[at:observing]))
            number = len(steps) + 1
            owners.append(number)
            steps.append(
                Step(
                    number=number,
                    action=action,
                    observation=_joined(text, blocks[observing:end]),
                    tokens=tokens,
                    thought=thought,
                )
            )
        at = end
    preamble = text[:preamble_end]
    system = context.system if isinstance(context.system, str) else ""
    trajectory = Trajectory(
        task=task,
        preamble=f"{system}\n{preamble}" if system else preamble,
        preamble_tokens=count(preamble) + count(system),
        steps=tuple(steps),
        pending_tokens=pending_tokens,
    )
    return Parsed(text, trajectory, owners, spans)


def render_blocks(parsed: Parsed, elided: Mapping[int, str], markers: Markers) -> Rendered:
    """Write the prompt without the elided steps, each run's marker after the block before it."""
    text: str = parsed.messages
    pieces: list[str] = []
    added: list[str] = []
    run: list[tuple[int, str]] = []
    for number, (start, end) in zip(parsed.owners, parsed.spans, strict=True):
        if number in elided:
            run.append((number, elided[number]))
            continue
        if run:
            pieces.append(markers.run(run) + _gap(pieces[-1]))
            added.append(pieces[-1])
            run = []
        pieces.append(text[start:end])
    return Rendered("".join(pieces), tuple(added))


def _joined(text: str, blocks: Sequence[Block]) -> str:
    return "\n".join(text[block.text_start : block.end].strip() for block in blocks)


def _gap(block: str) -> str:
    """Return the white space that ends a block, so that the next one stays as far away."""
    return block[len(block.rstrip()) :] or "\n"
