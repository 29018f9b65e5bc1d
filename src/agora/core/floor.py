"""What is never elided, and why."""

from collections.abc import Collection, Mapping, Sequence

from agora.core.trajectory import Step

# A masked step leaves its calls and a marker behind: below this there is nothing to gain.
LEAST_GAIN_TOKENS = 12


def floor(
    steps: Sequence[Step],
    *,
    k_recent: int,
    pins: Collection[int] = (),
    recalled: Collection[int] = (),
) -> Mapping[int, str]:
    """Return the number of each step of the floor with the reason that puts it there.

    The newest step holds the current observation, so it is kept even when
    `k_recent` is 0. Preamble, user text and pending blocks are not steps: they
    are no candidates to begin with.
    """
    reasons: dict[int, str] = {}
    newest = len(steps)
    for step in steps:
        number = step.number
        if number == newest:
            reasons[number] = "current observation"
        elif number > newest - k_recent:
            reasons[number] = "recent"
        elif number in pins:
            reasons[number] = "pinned"
        elif number in recalled:
            reasons[number] = "recalled"
        elif step.fixed:
            reasons[number] = step.fixed
        elif step.form == "mask" and step.tokens - step.residue_tokens < LEAST_GAIN_TOKENS:
            reasons[number] = "small"
    return reasons
