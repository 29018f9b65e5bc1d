"""What steps are worth by rule: actions first, then the newest observations that bring news."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agora.core.past import Past
from agora.core.reading.names import all_names
from agora.core.reading.observation import observe
from agora.core.worth import StepWorth

_ACTION = 0.4
_OBSERVATION = 0.6
_HALF_LIFE_STEPS = 10
"""After so many steps more an observation is worth half as much as the newest."""
_OLDEST = 0.25
"""What is left of an observation's worth, however old it is."""
_KEYED, _UNKEYED = 0.9, 0.3
"""What names carry of an observation: nearly all where they have keys (JSON), little of prose and
code. First looks by a language model's likelihood: forms in lab/notebook."""
_TOKENS = 400
"""An observation of so many tokens is worth half of what a very long one is."""


@dataclass(frozen=True, slots=True)
class RuleWorth:
    """Says what steps are worth without a model: for when there is none, or it fails."""

    def worth(self, past: Past, held: Collection[int]) -> Sequence[StepWorth]:
        """Return more for actions, for newer observations, and for those that bring new names."""
        texts = [past.preamble, *(utterance.text for utterance in past.said)]
        texts += [step.observation for step in past.steps if step.number in held]
        known = all_names(texts)
        found: list[StepWorth] = []
        for ago, step in enumerate(reversed(past.steps)):
            # What is held stays whatever it is worth, so nobody looks at what it brought.
            brought = () if step.number in held else observe(step.observation).facts
            new = sum(fact.tells not in known for fact in brought)
            known.update(fact.tells for fact in brought)
            keyed = any("=" in fact.text for fact in brought)
            novelty = 0.4 + 0.6 * new / (new + 2)
            recency = _OLDEST + (1 - _OLDEST) * 0.5 ** (ago / _HALF_LIFE_STEPS)
            size = max(1, step.tokens - step.action_tokens)
            length = size / (size + _TOKENS)
            worth = _OBSERVATION * recency * novelty * math.sqrt(length)
            found.append(
                StepWorth(_ACTION * (0.5 + 0.5 * recency), worth, _KEYED if keyed else _UNKEYED)
            )
        return found[::-1]
