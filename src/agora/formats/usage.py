"""The usage that a provider reports for a call: one reader for the fields of every API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agora.formats.base import as_list, as_object

_CACHED = (
    "cached_tokens",
    "cached_input_tokens",
    "cache_read",
    "cache_read_tokens",
    "cache_read_input_tokens",
    "prompt_cache_hit_tokens",
)
"""Names of the cached part of a total: OpenAI, Codex, LangChain, OpenRouter, LiteLLM, DeepSeek."""
_WRITTEN = (
    "cache_write_tokens",
    "cache_write_input_tokens",
    "cache_creation",
    "cache_creation_input_tokens",
)
"""Names of the part of a total that was written to the cache: OpenAI, Codex, LangChain, LiteLLM."""
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens")
_REASONING = ("reasoning_tokens", "reasoning")
_APART = (
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
)
"""Messages and Converse count cached and written tokens apart from the rest."""
_MOST_TOKENS = 1 << 63
_MOST_DOLLARS = 1e9


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call as the provider reported them."""

    uncached: int = 0
    """Prompt tokens that were neither read from a cache nor written to one."""
    read: int = 0
    written: int = 0
    """Prompt tokens that the provider bills as a cache write; most bill none."""
    output: int = 0
    """Generated tokens, reasoning included."""
    written_1h: int | None = None
    """The part of `written` that is kept for an hour; None if the provider does not say."""
    dollars: float | None = None
    """The price of the call, output included, where a log states it."""
    reasoning: int = 0
    """The part of `output` that is reasoning, if the provider reports it."""

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.read + self.written


def read_usage(value: Any) -> Usage | None:
    """Return the usage in an object of any of the APIs, or None if it does not count the prompt.

    >>> read_usage({"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 768}})
    Usage(uncached=132, read=768, written=0, output=0, written_1h=None, dollars=None, reasoning=0)
    >>> read_usage({"input_tokens": 10, "cache_read_input_tokens": 90}).prompt
    100
    """
    usage = as_object(value)
    parts = _of_total(usage) or _apart(usage)
    if parts is None:
        return None
    uncached, read, written = parts
    hour = _written_1h(usage)
    details = (usage.get("completion_tokens_details"), usage.get("output_tokens_details"))
    reasoning = max(_most(as_object(detail), _REASONING) for detail in details)
    # Gemini counts reasoning apart from the answer.
    thoughts = as_count(usage.get("thoughtsTokenCount")) or 0
    return Usage(
        uncached,
        read,
        written,
        _most(usage, _OUTPUT) + thoughts,
        None if hour is None else min(hour, written),
        _dollars(usage),
        reasoning or thoughts,
    )


def _of_total(usage: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Read an API whose total includes the cached and written tokens: OpenAI's two, Gemini."""
    total, details = as_count(usage.get("prompt_tokens")), "prompt_tokens_details"
    if total is None and "cache_read_input_tokens" not in usage:
        total, details = as_count(usage.get("input_tokens")), "input_tokens_details"
    if total is not None:
        # Some logs put the cached tokens beside the total instead of below it.
        fields = {**usage, **as_object(usage.get("input_token_details"))}
        fields |= as_object(usage.get(details))
        return _split(total, _most(fields, _CACHED), _most(fields, _WRITTEN))
    total = as_count(usage.get("promptTokenCount"))
    if total is not None:
        return _split(total, as_count(usage.get("cachedContentTokenCount")) or 0, 0)
    return None


def _apart(usage: Mapping[str, Any]) -> tuple[int, int, int] | None:
    for names in _APART:
        uncached, read, written = (as_count(usage.get(name)) for name in names)
        if uncached is not None:
            return uncached, read or 0, written or 0
    return None


def _split(total: int, read: int, written: int) -> tuple[int, int, int]:
    """Split a total so that no token is counted twice, whatever the provider reported."""
    read = min(read, total)
    written = min(written, total - read)
    return total - read - written, read, written


def _written_1h(usage: Mapping[str, Any]) -> int | None:
    """Return the tokens written for an hour: Messages and Converse say so."""
    hour = as_count(as_object(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    if hour is not None:
        return hour
    details = [as_object(detail) for detail in as_list(usage.get("cacheDetails"))]
    if not details:
        return None
    return sum(as_count(one.get("inputTokens")) or 0 for one in details if one.get("ttl") == "1h")


def _most(fields: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """Return the largest count under any of the names; several may occur together."""
    return max((as_count(fields.get(name)) or 0 for name in names), default=0)


def as_count(value: object) -> int | None:
    """Return a count, from a number or its digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 24:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_TOKENS:
        return None
    return value


def _dollars(usage: Mapping[str, Any]) -> float | None:
    cost = usage.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < _MOST_DOLLARS:
        return None
    return float(cost)
