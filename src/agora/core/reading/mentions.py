"""What a plain text shows of the things that user and agent speak of, and where it shows them.

A text without keys and codes, such as the description of a room or a page, names things in common
words, and which of them matter cannot be told from the words alone. But what the user said and what
the agent did next can be looked for in it. Nothing that only the text says gets into a line this
way, except the heading that a thing stands under.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from agora.core.reading import READ_OF_AN_ACTION
from agora.core.reading.observation import observe
from agora.core.reading.records import Fact
from agora.core.reading.things import Shown, phrases
from agora.core.trajectory import Step

_FEW, _PART = 3, 1 / 3
"""A thing that more texts show than these few, and than this part of them, tells nothing."""
_SPOKEN = 0.6
"""What a thing weighs that was spoken of."""
USED = 0.95
"""What one weighs that an action names: where it stood may be shown by nothing any more."""
_RECORDS = 1_000
"""Where the records of things begin, behind those of other facts."""


def action_text(step: Step, *, characters: int) -> str:
    """Return what a step said and gave to its calls, up to so many characters."""
    return "\n".join([step.action, *[call.arguments for call in step.calls]])[:characters]


def spoken_of(steps: Sequence[Step], said: Set[str]) -> Mapping[int, Sequence[Fact]]:
    """Return by its number what the result of each step shows of the things that were said.

    To what was `said` comes what later actions name, where the text is the last to show it: of
    what they used, where it was.
    """
    shown = [observe(step.observation).things for step in steps]
    texts = sum(map(bool, shown))
    often = Counter(name for one in shown for name in one.keys() & said)
    telling = {name for name, times in often.items() if times <= max(_FEW, texts * _PART)}
    used = _used(steps, shown)
    found: dict[int, Sequence[Fact]] = {}
    for at, (step, one) in enumerate(zip(steps, shown, strict=True)):
        named = used.get(at, frozenset())
        facts = [
            fact
            for place, name in enumerate(one)
            if name in named or name in telling
            for thing in one[name]
            if (fact := _fact(thing, place, used=name in named, said=name in telling))
        ]
        if facts:
            found[step.number] = facts
    return found


def _used(
    steps: Sequence[Step], shown: Sequence[Mapping[str, Sequence[Shown]]]
) -> Mapping[int, Set[str]]:
    """Return by the place of its step what each text was the last to show before it was named."""
    last: dict[str, int] = {}
    used: dict[int, set[str]] = {}
    for at, (step, one) in enumerate(zip(steps, shown, strict=True)):
        said = action_text(step, characters=READ_OF_AN_ACTION) if last else ""
        for name in last.keys() & phrases(said):
            used.setdefault(last[name], set()).add(name)
        last.update(dict.fromkeys(one, at))
    return used


def _fact(thing: Shown, place: int, *, used: bool, said: bool) -> Fact | None:
    # That a thing was there is said by its use; under what it stood is not.
    weight = USED if used and thing.under else _SPOKEN if said else 0.0
    if not weight:
        return None
    text = "|".join(f'"{one}"' if " " in one else one for one in (thing.under, thing.name) if one)
    tells = f"{thing.opening} {thing.under} {thing.name}"
    return Fact(text, tells, _RECORDS + place, weight)
