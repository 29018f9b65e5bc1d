"""Worth with views of files weighed by whether the file was edited since; not what ships.

What a view shows is stale once its file was edited, and may be read again as long as it was not.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agora.core.past import Past
from agora.core.reading.actions import changes, fenced
from agora.core.scorer import Scorer
from agora.core.trajectory import Anchor, Step
from agora.core.worth import StepWorth, Worth
from agora.scorers import load_scorer

_PATH = re.compile(r"(?:[\w.+-]*/)*[\w.+-]*\w\.[A-Za-z]\w{0,9}\b")
_WRITES = re.compile(
    r"(?:>{1,2}|\btee(?: -a)?)\s*(?P<to>[\w./+-]+)|\bsed\s+(?:-\w+\s+)*-i[^\n;&|]*"
)
_FILE_KEYS = ("path", "file_path", "file", "filename", "target_file")


@dataclass(frozen=True, slots=True)
class Weighed:
    """Another worth, with what came back from views of files times a factor."""

    stale: float = 1.0
    """For a view of a file that a later step edited."""
    fresh: float = 1.0
    """For a view of a file that none did."""
    other: str = "worth"

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return the scores of the other one."""
        return self._other().score(anchor, steps)

    def worth(self, past: Past, held: Collection[int]) -> Sequence[StepWorth]:
        """Return the worth of the other one, weighed."""
        other = self._other()
        assert isinstance(other, Worth)  # noqa: S101
        found = list(other.worth(past, held))
        edited_later: set[str] = set()
        for at in range(len(past.steps) - 1, -1, -1):
            step = past.steps[at]
            seen = viewed(step)
            if seen:
                weight = self.stale if seen & edited_later else self.fresh
                found[at] = found[at]._replace(observation=found[at].observation * weight)
            edited_later |= edited(step)
        return found

    def _other(self) -> Scorer:
        return load_scorer(self.other)


def viewed(step: Step) -> set[str]:
    r"""Return the files that a step showed: those that its action names, if it only reads.

    >>> viewed(Step(number=1, action="```bash\ncat src/a.py\n```", observation="x", tokens=9))
    {'a.py'}
    """
    if changes(step):
        return set()
    said = "\n".join(call.arguments for call in step.calls) or fenced(step.action)
    return {_last(path) for path in _PATH.findall(said)}


def edited(step: Step) -> set[str]:
    """Return the files that a step wrote to, as far as its action shows it.

    >>> sorted(edited(Step(number=1, action="sed -i s/a/b/ x/a.py && cat b.py > c.py",
    ...     observation="", tokens=9)))
    ['a.py', 'c.py']
    """
    if not changes(step):
        return set()
    if step.calls:
        return {_last(path) for call in step.calls for path in _given(call.arguments)}
    found: set[str] = set()
    for write in _WRITES.finditer(fenced(step.action)):
        found.update(map(_last, _PATH.findall(write["to"] or write[0])))
    return found


def _given(arguments: str) -> list[str]:
    try:
        value = json.loads(arguments)
    except ValueError:
        return []
    named = [value.get(key) for key in _FILE_KEYS] if isinstance(value, dict) else []
    return [path for path in named if isinstance(path, str)]


def _last(path: str) -> str:
    """Return a file's own name: one step gives it whole, another from where it stands."""
    return path.rpartition("/")[2]
