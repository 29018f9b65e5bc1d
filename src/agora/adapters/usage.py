"""The usage that a provider reports for a call, read from any API's own fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agora.adapters.lifetimes import written_1h
from agora.adapters.rules.shape import as_object

_CACHED = (
    "cached_tokens",
    "cached_input_tokens",
    "cache_read",
    "cache_read_tokens",
    "prompt_cache_hit_tokens",
)
"""Names of the cached part of a prompt: OpenAI, Codex, LangChain, OpenRouter, DeepSeek."""
_WRITTEN = ("cache_write_tokens", "cache_write_input_tokens", "cache_creation")
"""Names of the part of a prompt that was written to the cache: OpenAI, Codex, LangChain."""
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens")


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

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.read + self.written


def read_usage(value: Any) -> Usage | None:
    """Return the usage in an object of any of the APIs, or None if it does not count the prompt.

    >>> read_usage({"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 768}})
    Usage(uncached=132, read=768, written=0, output=0, written_1h=None, dollars=None)
    >>> read_usage({"input_tokens": 10, "cache_read_input_tokens": 90}).prompt
    100
    """
    usage = as_object(value)
    parts = _openai(usage) or _anthropic(usage) or _gemini(usage) or _bedrock(usage)
    if parts is None:
        return None
    uncached, read, written = parts
    hour = written_1h(usage)
    # Gemini counts reasoning apart from the answer.
    output = _most(usage, _OUTPUT) + (_count(usage.get("thoughtsTokenCount")) or 0)
    return Usage(
        uncached, read, written, output, None if hour is None else min(hour, written), _cost(usage)
    )


def _openai(usage: Mapping[str, object]) -> tuple[int, int, int] | None:
    """Read chat completions and Responses, whose total includes the cached and written tokens."""
    for total, details in (
        ("prompt_tokens", "prompt_tokens_details"),
        ("input_tokens", "input_tokens_details"),
    ):
        prompt = _count(usage.get(total))
        if prompt is not None and "cache_read_input_tokens" not in usage:
            # Some logs put the cached tokens beside the total instead of below it.
            fields = {**usage, **as_object(usage.get("input_token_details"))}
            fields |= as_object(usage.get(details))
            return _split(prompt, _most(fields, _CACHED), _most(fields, _WRITTEN))
    return None


def _anthropic(usage: Mapping[str, object]) -> tuple[int, int, int] | None:
    """Read Messages, whose cached and written tokens are not part of `input_tokens`."""
    uncached = _count(usage.get("input_tokens"))
    if uncached is None:
        return None
    read = _count(usage.get("cache_read_input_tokens")) or 0
    return uncached, read, _count(usage.get("cache_creation_input_tokens")) or 0


def _gemini(usage: Mapping[str, object]) -> tuple[int, int, int] | None:
    prompt = _count(usage.get("promptTokenCount"))
    if prompt is None:
        return None
    return _split(prompt, _count(usage.get("cachedContentTokenCount")) or 0, 0)


def _bedrock(usage: Mapping[str, object]) -> tuple[int, int, int] | None:
    """Read Converse, which counts as Messages does."""
    uncached = _count(usage.get("inputTokens"))
    if uncached is None:
        return None
    read = _count(usage.get("cacheReadInputTokens")) or 0
    return uncached, read, _count(usage.get("cacheWriteInputTokens")) or 0


def _split(prompt: int, read: int, written: int) -> tuple[int, int, int]:
    """Split a total so that no token is counted twice, whatever the provider reported."""
    read = min(read, prompt)
    written = min(written, prompt - read)
    return prompt - read - written, read, written


def _most(fields: Mapping[str, object], names: tuple[str, ...]) -> int:
    """Return the largest count under any of the names; several may stand side by side."""
    return max((_count(fields.get(name)) or 0 for name in names), default=0)


def _count(value: object) -> int | None:
    """Return a count, from a number or its digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 24:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1e24:
        return None
    return value


def _cost(usage: Mapping[str, object]) -> float | None:
    cost = usage.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < 1e9:
        return None
    return float(cost)
