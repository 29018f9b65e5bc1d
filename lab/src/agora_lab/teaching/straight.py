"""An episode without its detours: what is left between two visits of one page is left out.

A reader that compares products goes to many pages and back. Its way to what it bought in the end
is short, and a lesson that a small model can learn. That holds only for worlds in which a page
that is the same is the same place, so the way is walked once more in the world.
"""

import re
from itertools import pairwise

from agora_lab.environments import Environment
from agora_lab.episodes.episode import Episode, Move

_OPENED = re.compile(r"click\[([A-Z0-9]{10})\]")
_CODE = re.compile(r"(?<=\[SEP\] )[A-Z0-9]{10}(?= \[SEP\])")


def straight(episode: Episode, environment: Environment) -> tuple[Move, ...]:
    """Return the moves without detours; none where they do not lead to the same reward."""
    moves = without_detours(episode.opening, episode.moves)
    environment.reset(episode.task)
    reward = 0.0
    for move in moves:
        outcome = environment.step(move.action)
        if outcome.observation != move.observation:
            return ()
        reward = outcome.reward
    return moves if reward == episode.reward else ()


def takes_the_first(moves: tuple[Move, ...]) -> bool:
    """Whether each product that is opened is the first that its page lists.

    What comes first is the easiest choice to learn, and where the search is good a good one.
    """
    pairs = [(before.observation, move.action) for before, move in pairwise(moves)]
    opened = [(page, found[1]) for page, action in pairs if (found := _OPENED.fullmatch(action))]
    return all(_CODE.findall(page)[:1] == [code] for page, code in opened)


def without_detours(opening: str, moves: tuple[Move, ...]) -> tuple[Move, ...]:
    """Return the moves without those between two visits of a page.

    A move that stays on its page, as choosing an option does, is no detour. The first page is
    the end of the opening.
    """
    kept: list[Move] = []
    for move in moves:
        kept.append(move)
        page = move.observation
        if len(kept) > 1 and kept[-2].observation == page:
            continue
        before = [at for at, one in enumerate(kept[:-1]) if one.observation == page]
        if before:
            del kept[before[-1] + 1 :]
        elif len(kept) > 1 and opening.endswith(page):
            kept.clear()
    return tuple(kept)
