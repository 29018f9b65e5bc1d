"""What an agent's own compactions cost, and what it did again after them, as its log tells."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agora.adapters import parse
from agora.adapters.rules.shape import as_object
from agora.core.reading.actions import done_by, used_by
from agora.core.reading.names import names_in
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.logs import Recording
from agora.logs.values import as_json

_READS = ("read", "view", "open", "cat")
_PATHS = ("file_path", "path", "filename", "notebook_path", "absolute_path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A trajectory that goes on from a summary of what came before."""

    prompt_tokens: int
    """The prompt that was summed up, as the log says; 0 where it does not."""
    summary_tokens: int
    """What stands for it; by our estimate."""
    steps: int
    """Steps that came after it."""
    repeated: int
    """Those of them that did again, word for word, what a step before it had done."""
    reread: int
    """Those of them that read a file again that a step before it had read."""
    needing: int
    """Actions after it that use a name which only steps before it had brought."""
    met: int
    """Those of them that find every such name in the summary, or in what came after it."""


def compacted(
    recording: Recording, trajectory: Trajectory, counter: TokenCounter
) -> Compacted | None:
    """Return what became of a compaction, None if the trajectory does not begin with one."""
    compaction = recording.compaction
    if compaction is None:
        return None
    request = replace(recording.request(), messages=compaction.messages)
    earlier = parse(request, counter).trajectory
    done = {done_by(step) for step in earlier.steps}
    seen = {path for step in earlier.steps for path in _read_files(step)}
    needing, met = _needs(earlier, trajectory, compaction.summary)
    return Compacted(
        prompt_tokens=compaction.prompt_tokens,
        summary_tokens=counter.count(compaction.summary),
        steps=len(trajectory.steps),
        repeated=sum(done_by(step) in done for step in trajectory.steps),
        reread=sum(any(path in seen for path in _read_files(step)) for step in trajectory.steps),
        needing=needing,
        met=met,
    )


def summary_tokens(recording: Recording, counter: TokenCounter) -> int:
    """Return how many tokens the agent wrote that sums up a conversation; 0 for any other call.

    By our estimate of its text: logs are written before an answer has ended, and tell too few.
    """
    if not recording.sums_up:
        return 0
    said = as_object(recording.messages[-1])
    content = said.get("content") if said.get("role") == "assistant" else ""
    texts = content if isinstance(content, list) else [{"text": content}]
    return sum(counter.count(str(as_object(block).get("text", ""))) for block in texts)


def _read_files(step: Step) -> Iterator[str]:
    """Yield the files that a step reads, as its calls name them."""
    for call in step.calls:
        if any(word in call.name.lower() for word in _READS):
            given = as_object(as_json(call.arguments))
            yield from (path for key in _PATHS if isinstance(path := given.get(key), str))


def _needs(earlier: Trajectory, later: Trajectory, summary: str) -> tuple[int, int]:
    """Return how many later actions need a name of the steps before, and how many find it."""
    said = set(names_in(earlier.preamble))
    for utterance in earlier.utterances:
        said.update(names_in(utterance.text))
    brought: set[str] = set()
    for step in earlier.steps:
        brought.update(name for name in names_in(step.observation) if name not in said)
    seen: set[str] = set()
    needing = met = 0
    for step in later.steps:
        uses = used_by(step)
        needed = [name for name in uses if name in brought]
        needing += bool(needed)
        met += bool(needed) and all(name in seen or name in summary for name in needed)
        seen.update(uses, names_in(step.observation))
    return needing, met
