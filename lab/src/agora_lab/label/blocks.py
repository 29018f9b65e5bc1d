"""Blocks: the parts of a plan that are asked by one actor and committed together."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive asks of a plan that are asked by one actor and committed together."""

    start: int
    stop: int
    group: int
    """The first row group that has asks of it, and where in the plan that begins."""
    group_start: int
    done: bytes = b""
    """One bit for each ask; empty if none is done."""


def cut(group_rows: Iterable[int], block_asks: int) -> Iterator[Block]:
    """Return the blocks of a plan, from the sizes of its row groups.

    Row groups of a plan are whole trajectories. Several make a block, or a long
    one is cut into equal parts; the order stays, whichever it is.

    >>> [(block.start, block.stop) for block in cut([30, 30, 30, 250], 100)]
    [(0, 90), (90, 173), (173, 256), (256, 340)]
    """
    at = start = first = first_start = 0
    for group, rows in enumerate(group_rows):
        if at > start and at + rows - start > block_asks:
            yield Block(start, at, first, first_start)
            start = at
        if at == start:
            first, first_start = group, at
        parts = -(-rows // block_asks)
        for part in range(1, parts):
            stop = at + rows * part // parts
            yield Block(start, stop, group, at)
            start = stop
            first, first_start = group, at
        at += rows
        if parts > 1:
            yield Block(start, at, group, first_start)
            start = at
    if at > start:
        yield Block(start, at, first, first_start)
