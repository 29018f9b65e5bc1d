"""How a provider's prefix cache bills a sequence of prompts, token by token.

There are three kinds, chosen by the price sheet:

- *blocks* (`block` 1 or more, no breakpoints): the longest prefix shared with an earlier
  prompt is read, down to a whole number of blocks.
- *requests* (`block` 0): a prefix is read if an earlier request ended there or the caller marked
  it, or, with `common_prefix`, if two earlier requests shared it.
- *breakpoints*: only marked prefixes are written. A read goes back from each mark, at most
  `lookback` content blocks, to a place that an earlier request had marked.

In all of them nothing below the minimum prefix is read or written. An entry is gone if it was idle
for longer than the time to live, and reading renews it. If a sheet has a measured hit rate, each
read is that share of the most that the rules allow: the expected bill, not the luck of one call.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agora.core.prices import PriceSheet


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt that is compared as a whole: a content block, or a step."""

    key: Hashable
    """Equal for equal content: a hash, or the content itself."""
    tokens: int
    breakpoint: bool = False
    """True if the caller marked its end."""


@dataclass(frozen=True, slots=True)
class Bill:
    """How the tokens of a prompt were billed."""

    uncached: int
    read: int
    written: int
    dollars: float

    @property
    def tokens(self) -> int:
        """The whole prompt."""
        return self.uncached + self.read + self.written


class _Chained(NamedTuple):
    """A prompt; per prefix of it the chained hash and the size in tokens; the marked places."""

    segments: list[Segment]
    chains: list[int]
    ends: list[int]
    marks: list[int]


_MOST_KEPT = 1 << 18
"""Prefixes that are remembered, as many as 700 edited prompts of 700 segments have."""


class PrefixCache:
    """The cache of one account at one provider: send it prompts, get their bills.

    >>> from agora.core.prices import sheet_for
    >>> cache = PrefixCache(sheet_for("gpt-5.6"))
    >>> cache.send([Segment("preamble", 2_000)]).read
    0
    >>> cache.send([Segment("preamble", 2_000), Segment("step 1", 500)]).read
    2000
    """

    def __init__(self, sheet: PriceSheet) -> None:
        self.sheet = sheet
        self._used: dict[int, float] = {}
        self._seen: dict[int, float] = {}
        self._last = _Chained([], [], [], [])

    def send(self, prompt: Sequence[Segment], at_seconds: float = 0.0) -> Bill:
        """Bill one prompt, and remember it as the provider would.

        `at_seconds` is when it is sent, on any monotonic clock.

        Raises:
            ValueError: More places are marked than the provider accepts.
        """
        chains, ends, marks = self._chained(prompt)
        if self.sheet.breakpoints and len(marks) > self.sheet.breakpoints:
            raise ValueError(
                f"{len(marks)} segments are marked; {self.sheet.name} takes at most "
                f"{self.sheet.breakpoints} breakpoints, so leave {len(marks)} - "
                f"{self.sheet.breakpoints} unmarked"
            )
        size = ends[-1] if ends else 0
        if not self.sheet.caches or size < self.sheet.minimum_prefix:
            return self._bill(size, 0, 0)
        for entries in self._used, self._seen:
            if len(entries) > _MOST_KEPT:
                # A prompt that is edited at every call leaves prefixes behind that do not return.
                living = {chain: entries[chain] for chain in chains if chain in entries}
                entries.clear()
                entries.update(living)
        if self.sheet.breakpoints:
            return self._by_breakpoints(chains, ends, marks, at_seconds)
        if self.sheet.block:
            return self._by_blocks(chains, ends, at_seconds)
        return self._by_requests(chains, ends, marks, at_seconds)

    def _chained(self, prompt: Sequence[Segment]) -> tuple[list[int], list[int], list[int]]:
        """Return for each prefix its chained hash and its size in tokens, then the marked places.

        Most prompts extend the previous one: only the addition is hashed.
        """
        last = self._last
        # The mark on the newest segment has moved on.
        shared = max(0, len(last.segments) - 1)
        if last.segments[:shared] != list(prompt[:shared]):
            shared = 0
        chains, ends = last.chains[:shared], last.ends[:shared]
        marks = [place for place in last.marks if place < shared]
        chain, size = (chains[-1], ends[-1]) if shared else (0, 0)
        for place, segment in enumerate(prompt[shared:], start=shared):
            if segment.breakpoint:
                marks.append(place)
            chain = hash((chain, segment.key, segment.tokens))
            size += segment.tokens
            chains.append(chain)
            ends.append(size)
        self._last = _Chained(list(prompt), chains, ends, marks)
        return chains, ends, marks

    def _by_blocks(self, chains: list[int], ends: list[int], now: float) -> Bill:
        shared = 0
        for chain, end in zip(chains, ends, strict=True):
            if not self._lives(self._used, chain, now):
                break
            shared = end
        self._used.update(dict.fromkeys(chains, now))
        block, size = self.sheet.block, ends[-1]
        read = shared // block * block
        if read < self.sheet.minimum_prefix:
            read = 0
        return self._bill(size, read, size // block * block - read)

    def _by_requests(
        self, chains: list[int], ends: list[int], marks: list[int], now: float
    ) -> Bill:
        minimum = self.sheet.minimum_prefix
        read, shared = 0, -1
        for i, (chain, end) in enumerate(zip(chains, ends, strict=True)):
            if end >= minimum and self._lives(self._used, chain, now):
                read = end
                self._used[chain] = now
            if self._lives(self._seen, chain, now):
                shared = i
        if self.sheet.common_prefix and shared >= 0:
            self._used[chains[shared]] = now
        for i in (*marks, len(chains) - 1):
            if ends[i] >= minimum:
                self._used[chains[i]] = now
        self._seen.update(dict.fromkeys(chains, now))
        return self._bill(ends[-1], read, ends[-1] - read)

    def _by_breakpoints(
        self, chains: list[int], ends: list[int], marks: list[int], now: float
    ) -> Bill:
        minimum, lookback = self.sheet.minimum_prefix, self.sheet.lookback
        read = -1
        for mark in reversed(marks):
            first = max(0, mark - lookback + 1) if lookback else 0
            for i in range(mark, first - 1, -1):
                if ends[i] >= minimum and self._lives(self._used, chains[i], now):
                    read = i
                    break
            if read >= 0:
                break
        written = [i for i in marks if ends[i] >= minimum]
        for i in written:
            self._used[chains[i]] = now
        if read < 0:
            return self._bill(ends[-1], 0, ends[written[-1]] if written else 0)
        self._used[chains[read]] = now
        return self._bill(ends[-1], ends[read], ends[max(read, written[-1])] - ends[read])

    def _lives(self, entries: dict[int, float], chain: int, now: float) -> bool:
        used = entries.get(chain)
        return used is not None and now - used <= self.sheet.ttl_seconds

    def _bill(self, size: int, read: int, written: int) -> Bill:
        missed = read - int(read * self.sheet.hit)
        read, written = read - missed, written + missed
        uncached = size - read - written
        dollars = self.sheet.dollars(uncached=uncached, read=read, written=written)
        return Bill(uncached, read, written, dollars)
