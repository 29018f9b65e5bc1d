"""What a provider says it billed for a call, in the words of each API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agora.adapters.lifetimes import written_1h
from agora.adapters.rules.shape import as_object
from agora.logs.values import as_count

_READ = ("cached_tokens", "cached_input_tokens", "cache_read", "cache_read_tokens")
_WRITTEN = ("cache_write_input_tokens", "cache_creation", "cache_write_tokens")
"""What Codex, LangChain and OpenHands call what was read and written; all of it in the total."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The input tokens of one call as the provider reported them."""

    prompt: int
    """All of them: uncached, read and written."""
    read: int = 0
    written: int = 0
    """What the provider bills as a cache write; most bill none."""
    dollars: float | None = None
    """What the call cost, output included, where the log says."""
    written_1h: int | None = None
    """What of `written` is kept for an hour; None where the provider does not say."""

    @property
    def uncached(self) -> int:
        """What came from no cache and was not written to one."""
        return self.prompt - self.read - self.written


def read_usage(value: Any) -> Usage | None:
    """Return the usage in an object of any of the APIs, or None if it says nothing of the prompt.

    >>> read_usage({"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 768}})
    Usage(prompt=900, read=768, written=0, dollars=None, written_1h=None)
    >>> read_usage({"input_tokens": 10, "cache_read_input_tokens": 90}).prompt
    100
    """
    usage = as_object(value)
    found = _openai(usage) or _anthropic(usage) or _gemini(usage) or _bedrock(usage)
    if found is None:
        return None
    prompt, read, written = found
    read = min(read, prompt)
    written = min(written, prompt - read)
    hour = written_1h(usage)
    return Usage(prompt, read, written, _cost(usage), None if hour is None else min(hour, written))


def _openai(usage: Mapping[str, object]) -> tuple[int, int, int] | None:
    """Read chat completions and Responses: the details are part of the prompt."""
    for total, details in (
        ("prompt_tokens", "prompt_tokens_details"),
        ("input_tokens", "input_tokens_details"),
    ):
        prompt = as_count(usage.get(total))
        if prompt is not None and "cache_read_input_tokens" not in usage:
            # Some logs put the cached tokens beside the total instead of below it.
            told = {**usage, **as_object(usage.get("input_token_details"))}
            told |= as_object(usage.get(details))
            return prompt, _first_count(told, _READ) or 0, _first_count(told, _WRITTEN) or 0
    return None


def _anthropic(usage: Mapping[str, object]) -> tuple[int, int, int] | None:
    """Read Messages usage: tokens read and written are separate, not part of the rest."""
    rest = as_count(usage.get("input_tokens"))
    if rest is None:
        return None
    read = as_count(usage.get("cache_read_input_tokens")) or 0
    written = as_count(usage.get("cache_creation_input_tokens")) or 0
    return rest + read + written, read, written


def _gemini(usage: Mapping[str, object]) -> tuple[int, int, int] | None:
    prompt = as_count(usage.get("promptTokenCount"))
    if prompt is None:
        return None
    return prompt, as_count(usage.get("cachedContentTokenCount")) or 0, 0


def _bedrock(usage: Mapping[str, object]) -> tuple[int, int, int] | None:
    """Read Converse: as in Messages, what was read and written stands beside the rest."""
    rest = as_count(usage.get("inputTokens"))
    if rest is None:
        return None
    read = as_count(usage.get("cacheReadInputTokens")) or 0
    written = as_count(usage.get("cacheWriteInputTokens")) or 0
    return rest + read + written, read, written


def _first_count(fields: Mapping[str, object], keys: tuple[str, ...]) -> int | None:
    counts = (as_count(fields[key]) for key in keys if key in fields)
    return next((count for count in counts if count is not None), None)


def _cost(usage: Mapping[str, object]) -> float | None:
    cost = usage.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < 1e9:
        return None
    return float(cost)
