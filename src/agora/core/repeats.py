"""Calls that are asked for again after they were shortened, against how often calls repeat anyway.

An agent that forgot a result asks for it again. But it also repeats calls whose results it still
has: it runs the tests once more. So each new call is compared with all before it, by name and
arguments. As often as an agent repeats those that are whole, it is expected to repeat those that
are shortened; what comes on top are extra calls. The newest steps are repeated most and are no
measure of old ones. Nothing is decided by these counts.
"""

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import NamedTuple

from agora.core.actions import command_of
from agora.core.trajectory import Step

Asked = tuple[int, ...]
"""Digests of the calls of a step."""
_NEWEST = 4
"""Fewer old steps are no measure."""


class Habit(NamedTuple):
    """How often a conversation has repeated old calls whose results were whole."""

    repeats: int = 0
    share: float = 0.0
    """The share of its old calls that were whole, summed over its new calls."""


class Repeats(NamedTuple):
    """The repeats among some new calls."""

    again: int = 0
    """Calls that were asked for again after they were shortened."""
    expected: float = 0.0
    """How many of them the conversation would have repeated anyway."""

    @property
    def extra(self) -> float:
        """The repeats above the expected number."""
        return self.again - self.expected

    def plus(self, other: "Repeats") -> "Repeats":
        """Return the sums."""
        return Repeats(self.again + other.again, self.expected + other.expected)


NO_REPEATS = Repeats()


def asked_by(step: Step) -> Asked:
    """Return a digest for each call of a step: of name and arguments, or of a text's command."""
    calls = [f"{call.name}\0{call.arguments}" for call in step.calls] or [command_of(step.action)]
    data = (text.encode("utf-8", "surrogatepass") for text in calls)
    return tuple(int.from_bytes(blake2b(text, digest_size=7).digest()) for text in data)


def count_repeats(
    habit: Habit, asked: Sequence[Asked], before: int, shortened: Collection[int]
) -> tuple[Habit, Repeats]:
    """Return the habit with some new steps, and the repeats among these.

    Args:
        habit: The habit before them.
        asked: The calls of all steps.
        before: How many steps there were before; the others are new.
        shortened: The numbers of the steps that were shortened when the new ones were asked for.

    >>> ls, cat = (1,), (2,)
    >>> count_repeats(Habit(), [ls, cat, ls], 2, {1})
    (Habit(repeats=0, share=0.0), Repeats(again=1, expected=0.0))
    """
    repeats, share = habit
    again, expected = 0, 0.0
    whole: set[int] = set()
    gone: set[int] = set()
    for number, calls in enumerate(asked[:before], start=1):
        (gone if number in shortened else whole).update(calls)
    gone -= whole
    for number in range(before, len(asked)):
        old = whole.difference(*asked[max(0, number - _NEWEST) : number])
        for call in asked[number]:
            if gone and share:
                expected += len(gone) / (len(gone) + len(old)) * repeats / share
            if old:
                share += len(old) / (len(gone) + len(old))
            repeats += call in old
            again += call in gone
        whole.update(asked[number])
        gone.difference_update(asked[number])
    return Habit(repeats, share), Repeats(again, expected)
