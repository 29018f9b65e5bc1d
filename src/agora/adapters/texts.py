"""Prompts that are one string, cut into blocks: what transcripts and ReAct text share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agora.adapters.base import Parsed, Rendered
from agora.adapters.spoken import split_thought
from agora.core.renditions.markers import Markers
from agora.core.renditions.rendition import Rendition
from agora.core.tokens import TokenCounter
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
    text: str,
    preamble_end: int,
    task: str,
    blocks: Sequence[Block],
    system: object,
    counter: TokenCounter,
) -> Parsed:
    """Return the trajectory of a prompt whose blocks after the preamble are given.

    A step is a run of acting blocks with the run of observing blocks after
    it. Acting blocks at the end have no observation yet and are pending.
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


def render_blocks(
    parsed: Parsed, renditions: Mapping[int, Rendition], markers: Markers
) -> Rendered:
    """Write the prompt with each step as its rendition says.

    A run's marker stands after the block before it, a note in the place of what was observed.
    """
    text: str = parsed.messages
    pieces: list[str] = []
    added: list[str] = []
    run: list[Rendition] = []
    before = 0
    blocks = zip(parsed.owners, parsed.spans, parsed.observed, strict=True)
    for number, (start, end), observed in blocks:
        rendition = renditions.get(number)
        if rendition is not None and not rendition.in_place:
            run.append(rendition)
            continue
        if run:
            # Behind the preamble it follows the task; elsewhere an observation.
            pieces.append(markers.run(run, signed=not before) + _gap(pieces[-1]))
            added.append(pieces[-1])
            run = []
        if rendition is not None:
            gap = "" if text[observed - 1].isspace() else " "
            note = gap + markers.note(number, rendition.text) + _gap(text[observed:end])
            added.append(note)
            pieces += [text[start:observed], note]
        else:
            pieces.append(text[start:end])
        before = number
    return Rendered("".join(pieces), tuple(added))


def _joined(text: str, blocks: Sequence[Block]) -> str:
    return "\n".join(text[block.text_start : block.end].strip() for block in blocks)


def _gap(block: str) -> str:
    """Return the white space that ends a block, so that the next one stays as far away."""
    return block[len(block.rstrip()) :] or "\n"
