"""A session in the few words that fit into a coding agent's status line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agora.wrapping.account import Account, dollars, read_account

METRICS = "AGORA_WRAP_METRICS"
"""The variable that tells an agent's own programs where the gateway of its session counts."""
_CACHED = "cache_read_input_tokens"
_UNCACHED = ("input_tokens", "cache_creation_input_tokens")


def session_of(environment: Mapping[str, str]) -> Account | None:
    """Return the account so far of the session that a program was started in, if it is in one."""
    folder = environment.get(METRICS, "")
    if not folder or not Path(folder).is_dir():
        return None
    return read_account(Path(folder))


def status(account: Account | None, told: object) -> str:
    """Return the line: what was saved, the calls, and how much of the prompts came from the cache.

    `told` is what Claude Code says of the session. Outside `agora wrap` it is all there is.

    >>> print(status(Account(calls=46, edited=36, dollars=1.61, dollars_saved=0.54,
    ...     tokens_in=1_000, tokens_cached=910), {}))
    agora: $0.54 of $2.15 saved · 46 calls, 36 edited · 91% cached
    >>> print(status(None, {}))
    agora: off, start with `agora wrap claude`
    """
    if account is None:
        said = ["off, start with `agora wrap claude`"]
    elif not account.calls:
        said = ["on, no calls yet"]
    else:
        calls = f"{account.calls:,} call{'' if account.calls == 1 else 's'}"
        said = [_saved(account), f"{calls}, {account.edited:,} edited"]
    share = _share(account, told)
    if share is not None:
        said.append(f"{share:.0%} cached")
    return f"agora: {' · '.join(said)}"


def _saved(account: Account) -> str:
    if not account.edited:
        return "nothing to save yet"
    if account.dollars is None:
        verb = "would be elided" if account.shadow else "elided"
        return f"{account.tokens_elided:,} tokens {verb}"
    saved = account.dollars_saved
    if account.shadow:
        return f"{dollars(abs(saved))} would be {'saved' if saved >= 0 else 'lost'}"
    if saved < 0:
        return f"{dollars(-saved)} lost so far"
    return f"{dollars(saved)} of {dollars(account.dollars + saved)} saved"


def _share(account: Account | None, told: object) -> float | None:
    """Return what share of the session's prompts was cached; without a session, of the last one."""
    if account is not None:
        return account.tokens_cached / account.tokens_in if account.tokens_in else None
    window = told.get("context_window") if isinstance(told, dict) else None
    usage: Any = window.get("current_usage") if isinstance(window, dict) else None
    if not isinstance(usage, dict):
        return None
    cached, *others = [_count(usage.get(name)) for name in (_CACHED, *_UNCACHED)]
    whole = cached + sum(others)
    return cached / whole if whole else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
