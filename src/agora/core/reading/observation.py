"""What one result says, each part read when it is first asked for, and then remembered."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from agora.core.memo import Memo
from agora.core.outcome import Outcome, outcome_of
from agora.core.reading.counted import first_names, words_of
from agora.core.reading.records import Fact, facts_in
from agora.core.reading.things import Shown, things_in
from agora.core.reading.values import Values, values_in
from agora.core.trajectory import Result, Step

MOST_NAMES = 64
"""So many names of a result are counted as features: what has more is worth no milliseconds."""


class Observation:
    """A text that came back to the agent, read part by part.

    >>> observe('{"order_id": "W-11000", "status": "cancelled"}').facts[0].text
    'order_id=W-11000'
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _data(self) -> Values:
        return values_in(self.text)

    @cached_property
    def outcome(self) -> Outcome:
        """What it says of how it went."""
        return outcome_of(Result(self.text))

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """What its records, its code or its prose name, in its order."""
        return facts_in(self.text, self._data)

    @cached_property
    def things(self) -> Mapping[str, Sequence[Shown]]:
        """What a plain text shows, by name; nothing of data and code."""
        return things_in(self.text)

    @cached_property
    def names(self) -> frozenset[str]:
        """Its first names, as features count them."""
        return frozenset(first_names(self.text, MOST_NAMES))

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Its words, as features count them."""
        return words_of(self.text)


observe = Memo(Observation, 8_000_000, name="observations")
"""A result as it is read, remembered: a trajectory comes back with one more step, so the same
results are asked for over and over."""


def read_ahead(step: Step) -> None:
    """Read what the lines of a step are made of, so that it is remembered when they are made."""
    _ = observe(step.observation).things
    for result in step.results:
        one = observe(result.text)
        _ = one.outcome, one.facts


def outcome(result: Result) -> Outcome:
    """Return how a call went: as the wire format says, or else as its result does.

    >>> outcome(Result('{"error": "no such user"}'))
    Outcome(status='error', reason='no such user')
    """
    return outcome_of(result) if result.failed else observe(result.text).outcome
