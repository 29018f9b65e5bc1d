"""A provider's prefix cache, exact to the character: tokens read, written, or neither.

Written independently of `agora.core.prefix_cache`, so that the two can be compared. Which of the
three kinds a cache is, its smallest prefix and its time to live come from the price sheet.
"""

from dataclasses import dataclass, field

from agora.core.prices import PriceSheet
from harness.agents.wire import Prompt, characters, extends

CHARACTERS_PER_TOKEN = 4
"""The fake provider's tokenizer."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one prompt, by how they are billed."""

    uncached: int
    read: int
    written: int

    @property
    def tokens(self) -> int:
        """The whole prompt."""
        return self.uncached + self.read + self.written

    def dollars(self, sheet: PriceSheet) -> float:
        """Return the dollars for the prompt."""
        return sheet.dollars(uncached=self.uncached, read=self.read, written=self.written)


@dataclass(slots=True)
class _Kept:
    prompt: Prompt
    used: float


@dataclass(slots=True)
class ExactCache:
    """The cache of one account for one family of models.

    >>> from agora.core.prices import sheet_for
    >>> from harness.agents.wire import Block
    >>> cache = ExactCache(sheet_for("gpt-5"))
    >>> cache.send((Block("a" * 8_000),), 0.0)
    Usage(uncached=80, read=0, written=1920)
    >>> cache.send((Block("a" * 8_000), Block("b" * 4_000)), 1.0).read
    1920
    """

    sheet: PriceSheet
    _kept: list[_Kept] = field(default_factory=list)

    def send(self, prompt: Prompt, at: float) -> Usage:
        """Bill a prompt that is sent at a time in seconds, and remember it."""
        sheet = self.sheet
        size = _tokens(characters(prompt))
        self._kept = [kept for kept in self._kept if at - kept.used <= sheet.ttl_seconds]
        if not sheet.caches or size < sheet.minimum_prefix:
            return Usage(size, 0, 0)
        if sheet.breakpoints:
            return self._by_marks(prompt, size, at)
        if sheet.block:
            return self._by_blocks(prompt, size, at)
        return self._by_ends(prompt, size, at)

    def _by_blocks(self, prompt: Prompt, size: int, at: float) -> Usage:
        """Read the longest prefix that any earlier prompt shares, in whole blocks of tokens."""
        shared, best = 0, None
        for kept in self._kept:
            common = common_characters(kept.prompt, prompt)
            if common > shared:
                shared, best = common, kept
        read = self._enough(_tokens(shared) // self.sheet.block * self.sheet.block)
        if best is not None and read:
            best.used = at
        self._kept.append(_Kept(prompt, at))
        written = size // self.sheet.block * self.sheet.block - read
        return Usage(size - read - written, read, written)

    def _by_ends(self, prompt: Prompt, size: int, at: float) -> Usage:
        """Read the longest earlier prompt that is a prefix of this one."""
        read = 0
        for kept in self._kept:
            if extends(prompt, kept.prompt):
                kept.used = at
                read = max(read, _tokens(characters(kept.prompt)))
        read = self._enough(read)
        self._kept.append(_Kept(prompt, at))
        return Usage(0, read, size - read)

    def _by_marks(self, prompt: Prompt, size: int, at: float) -> Usage:
        """Read back from a mark to a place that was marked before; write up to the last mark."""
        marks = [n for n, block in enumerate(prompt, 1) if block.marked]
        lookback = self.sheet.lookback or len(prompt)
        read_end = 0
        for mark in reversed(marks):
            for end in range(mark, max(0, mark - lookback), -1):
                found = self._written_before(prompt[:end])
                if found is not None and self._enough(_tokens(characters(prompt[:end]))):
                    found.used, read_end = at, end
                    break
            if read_end:
                break
        for mark in marks:
            before = self._written_before(prompt[:mark])
            if before is None:
                self._kept.append(_Kept(prompt[:mark], at))
            else:
                before.used = at
        read = _tokens(characters(prompt[:read_end]))
        last = _tokens(characters(prompt[: max(marks, default=0)]))
        written = max(0, self._enough(last) - read)
        return Usage(size - read - written, read, written)

    def _written_before(self, prefix: Prompt) -> _Kept | None:
        for kept in reversed(self._kept):
            if len(kept.prompt) == len(prefix) and extends(prefix, kept.prompt):
                return kept
        return None

    def _enough(self, tokens: int) -> int:
        return tokens if tokens >= self.sheet.minimum_prefix else 0


def common_characters(one: Prompt, other: Prompt) -> int:
    """Return the length of the common prefix of two prompts, in characters."""
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a.text != b.text:
            return shared + _common(a.text, b.text)
        shared += len(a.text)
    return shared


def _common(one: str, other: str) -> int:
    """Return the length of the longest common prefix, halving instead of walking."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _tokens(count: int) -> int:
    return count // CHARACTERS_PER_TOKEN
