"""Parts of steps chosen by what they are worth for their tokens: an action, or both parts."""

import heapq
from collections.abc import Sequence

Parts = set[tuple[int, int]]
"""The place of a step, and 0 for its action or 1 for its observation."""
Pair = tuple[float, float]


def fill(worths: Sequence[Pair], costs: Sequence[Pair], room: float) -> Parts:
    """Return the parts that are kept: by worth per token, along the hull of each step's forms.

    An observation never stays without its action.

    >>> sorted(fill([(0.9, 0.1), (0.0, 0.9)], [(5, 50), (5, 10)], 20))
    [(0, 0), (1, 0), (1, 1)]
    """
    queue: list[tuple[float, int, int]] = []
    for at, (worth, cost) in enumerate(zip(worths, costs, strict=True)):
        densities = [one / tokens for one, tokens in zip(worth, cost, strict=True)]
        if densities[1] > densities[0]:
            queue.append((-sum(worth) / sum(cost), -at, 2))
        else:
            queue.append((-densities[0], -at, 0))
    heapq.heapify(queue)
    kept: Parts = set()
    while queue:
        _, less, form = heapq.heappop(queue)
        at = -less
        worth, cost = worths[at], costs[at]
        if form == 2 and sum(cost) <= room:
            room -= sum(cost)
            kept |= {(at, 0), (at, 1)}
        elif form == 2:
            heapq.heappush(queue, (-worth[0] / cost[0], less, 0))
        elif cost[form] <= room:
            room -= cost[form]
            kept.add((at, form))
            if form == 0:
                heapq.heappush(queue, (-worth[1] / cost[1], less, 1))
    return kept
