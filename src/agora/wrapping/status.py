"""A session's figures for a coding agent's status line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agora.service import Account
from agora.wrapping.line import saved_words

STATE = "AGORA_WRAP_STATE"
"""The variable with the path of the session's account, for programs that the agent starts."""
_CACHED = "cache_read_input_tokens"
_UNCACHED = ("input_tokens", "cache_creation_input_tokens")


def session_of(environment: Mapping[str, str]) -> Account | None:
    """Return the account of the session in which this program was started, if there is one."""
    path = environment.get(STATE, "")
    return Account.load(Path(path)) if path and Path(path).parent.is_dir() else None


def status(account: Account | None, claude: object) -> str:
    """Return the line: dollars saved, calls, and the cached share of the prompts.

    `claude` is Claude Code's own report, the only source outside of `agora wrap`.

    >>> print(status(Account(calls=46, edited=36, billed=46, dollars=1.61, saved=0.549,
    ...     prompt_tokens=1_000, cached_tokens=910), {}))
    agora: about $0.54 saved · 46 calls, 36 shortened · 91% cached
    >>> print(status(None, {}))
    agora: off, start with `agora wrap claude`
    """
    if account is None:
        parts = ["off, start with `agora wrap claude`"]
    elif not account.calls:
        parts = ["on, no calls yet"]
    else:
        saved = saved_words(account) if account.billed else "no usage reported"
        calls = f"{account.calls:,} call{'' if account.calls == 1 else 's'}"
        parts = [saved, f"{calls}, {account.edited:,} shortened"]
    share = _cached_share(account, claude)
    if share is not None:
        parts.append(f"{share:.0%} cached")
    return f"agora: {' · '.join(parts)}"


def _cached_share(account: Account | None, claude: object) -> float | None:
    """Return the cached share of the session's prompts; without a session, of the last one's."""
    if account is not None:
        prompts = account.prompt_tokens
        return account.cached_tokens / prompts if prompts else None
    window = claude.get("context_window") if isinstance(claude, dict) else None
    usage: Any = window.get("current_usage") if isinstance(window, dict) else None
    if not isinstance(usage, dict):
        return None
    cached, *others = [_count(usage.get(name)) for name in (_CACHED, *_UNCACHED)]
    whole = cached + sum(others)
    return cached / whole if whole else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
