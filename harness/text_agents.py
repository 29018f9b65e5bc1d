"""What is seen of recorded agents that act by text, without being told that they do."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from agora.adapters import parse
from agora.adapters.spoken import may_act_by_text
from agora.core.tokens import Characters
from agora.logs import Recording


@dataclass(slots=True)
class Seen:
    """What was seen in the runs of one folder that act by text."""

    runs: int = 0
    seen: int = 0
    """Runs with at least one step."""
    told: int = 0
    """Runs without one, of ten turns or more: the caller is asked."""
    answers: int = 0
    """User messages behind a message of the agent."""
    observations: int = 0
    """Those of them that are read as observations."""


def look(recordings: Iterator[Recording]) -> Seen:
    """Return what is seen in the recordings whose agents call no tools."""
    seen = Seen()
    for recording in recordings:
        request = replace(recording.request(), observations=None)
        roles = [message.get("role") for message in request.messages]
        if "tool" in roles or any(message.get("tool_calls") for message in request.messages):
            continue
        parsed = parse(request, Characters())
        seen.runs += 1
        seen.seen += bool(parsed.trajectory.steps)
        seen.told += may_act_by_text(request, parsed.trajectory)
        seen.answers += sum(pair == ("assistant", "user") for pair in pairwise(roles))
        seen.observations += sum(owner < 0 for owner in parsed.owners)
    return seen
