"""The calls of a conversation, as sizes: all that the schedule knows of them."""

from bisect import bisect_left
from collections.abc import Iterable, Set
from itertools import accumulate
from typing import NamedTuple

from agora.core.prices import PriceSheet
from agora.core.trajectory import Trajectory

MARKER_TOKENS = 16
"""The assumed cost of the bare marker of a run of elided steps."""


class Billed(NamedTuple):
    """The provider's usage of one call, in the provider's tokens."""

    uncached: int
    read: int
    written: int
    output: int = 0


class Call(NamedTuple):
    """The schedule's view of one call: sizes in tokens, and events since the last one.

    Sizes are those of the caller's own messages, as they are without any edit.
    """

    steps: int
    """How many steps the messages have."""
    prompt: int
    """Everything up to the newest step: preamble, steps, and the text between them."""
    outside: int
    """How much of it an edit now could remove: all outside the protected steps, less a marker."""
    opening: int = 0
    """How much of the preamble a cache finds again after an edit."""
    tail: int = 0
    """Tokens of the texts after the newest step."""
    pending: int = 0
    """Assistant blocks that wait for their observation; only the window counts them."""
    thinking: int = 0
    """Thinking since the user's last words that an edit would take out; 0 where thinking is not
    bound to the prompt."""
    output: int = 0
    """The tokens of the last answer, if `usage` lacks them."""
    beginning: int = 0
    """A digest of all that precedes the messages or decides how they are cached: model, system,
    tools, thinking parameters. 0 if it is not known."""
    idle_seconds: float | None = None
    """Silence since the end of the last answer, if this process received that answer."""
    usage: Billed | None = None
    """The provider's usage of the last call."""
    removes: int | None = None
    """How many tokens the new edit that `advance` named for this call removes from the prompt, now
    that it is written. Asked again with it from the same state, `advance` takes the edit or drops
    it. None: the number that the edit's room implies is assumed."""


def calls_of(
    trajectory: Trajectory,
    sheet: PriceSheet,
    k_recent: int,
    *,
    pinned: Set[int] = frozenset(),
    moments: Iterable[tuple[int, int]] | None = None,
) -> list[Call]:
    """Return the calls of a trajectory as the schedule sees them, oldest first.

    `moments` has the number of steps and utterances before each call. Without it one call is
    assumed after each step and after each of the user's later messages: the unknown past.
    """
    steps, spoken = trajectory.steps, trajectory.utterances
    after = [utterance.after for utterance in spoken]
    spoke = [0, *accumulate((u.by_user * u.after for u in spoken), max)]
    sizes = [0, *accumulate(step.tokens for step in steps)]
    said = [0, *accumulate(utterance.tokens for utterance in spoken)]
    answers = [0, *accumulate(step.action_tokens for step in steps)]
    texts = [0, *accumulate(0 if one.by_user else one.tokens for one in spoken)]
    removable, thinking = [0], [0]
    for step in steps:
        bare = step.without_thinking() if trajectory.bound else step
        stays = step.fixed or step.number in pinned
        residue = bare.tokens if stays else bare.residue_tokens
        removable.append(removable[-1] + step.tokens - residue)
        thinking.append(thinking[-1] + step.tokens - bare.tokens)
    system = trajectory.preamble_tokens
    if sheet.breakpoints:
        system -= trajectory.unmarked_tokens
    block = max(1, sheet.block)

    calls: list[Call] = []
    done = heard = 0
    for number, utterances in moments if moments is not None else implied(trajectory):
        inside = min(utterances, bisect_left(after, number))
        opening = system
        if number and not sheet.breakpoints:
            opening += said[min(utterances, bisect_left(after, 1))]
        opening = opening // block * block if opening >= sheet.minimum_prefix else 0
        calls.append(
            Call(
                steps=number,
                prompt=trajectory.preamble_tokens + sizes[number] + said[inside],
                outside=max(0, removable[max(0, number - max(1, k_recent))] - MARKER_TOKENS),
                opening=opening,
                tail=said[utterances] - said[inside],
                thinking=thinking[number] - thinking[spoke[utterances]],
                output=answers[number] - answers[done] + texts[utterances] - texts[heard],
            )
        )
        done, heard = number, utterances
    calls[-1] = calls[-1]._replace(pending=trajectory.pending_tokens)
    return calls


def implied(trajectory: Trajectory) -> list[tuple[int, int]]:
    """Return the calls that a trajectory must have made: how many steps and utterances each had."""
    spoken = trajectory.utterances
    moments: list[tuple[int, int]] = []
    heard = 0
    for number in range(len(trajectory.steps) + 1):
        moments.append((number, heard))
        while heard < len(spoken) and spoken[heard].after <= number:
            heard += 1
            if spoken[heard - 1].by_user:
                moments.append((number, heard))
    # The last call sends the agent's last text too, if there is no answer to it.
    moments[-1] = moments[-1][0], len(spoken)
    return moments
