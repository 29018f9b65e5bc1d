"""The closing line: the cost and the savings of a wrapped session."""

import math

from agora.service import Account

_REASONS = {
    "not_worth_it_yet": "too early to pay",
    "below_threshold": "too short",
    "too_short": "too short",
    "nothing_to_elide": "nothing to shorten",
    "own_summary": "the agent's own summary",
    "late": "no time",
    "saturated": "no time",
    "too_slow": "no time",
    "refused_before": "an edit was refused",
    "illegal_input": "not a legal history",
    "stand_down": "editing paused, it cost more than it saved",
}
"""Words for those reason codes of the service that people would not understand."""
_ERRORS = {"upstream": "without an answer", "truncated": "cut short", "client_left": "given up"}
_WINDOWS = {"5h": "the 5-hour quota", "7d": "the week's"}


def closing_line(account: Account, restarts: int = 0) -> str:
    """Return the line that ends a session.

    >>> print(closing_line(Account(calls=46, edited=38, billed=46, dollars=1.104, saved=0.336,
    ...     models={"claude-sonnet-5": 1.1}, unchanged={"not_worth_it_yet": 7, "late": 1})))
    agora: 46 calls, 38 sent shortened · $1.10 at claude-sonnet-5 prices, about $0.33 saved · \
8 unchanged (7 too early to pay, 1 no time)
    >>> print(closing_line(Account()))
    agora: no calls
    """
    parts = [_count(account.calls, "call") if account.calls else "no calls"]
    if account.calls > account.errors.get("upstream", 0):
        parts[0] += "" if shadow_calls(account) else f", {account.edited:,} sent shortened"
        parts.append(_dollars(account))
        if quota(account):
            parts.append(quota(account))
        if account.thinking_blocks:
            parts.append(f"{_count(account.thinking_blocks, 'thinking block')} no longer sent")
        if account.asked_again:
            parts.append(_asked_again(account))
        parts += _unchanged(account)
    if account.errors:
        said = ", ".join(f"{count} {_ERRORS.get(e, e)}" for e, count in account.errors.items())
        parts.append(said + (f" (last: {account.last_error})" if account.last_error else ""))
    if restarts:
        parts.append(f"the proxy was restarted {_count(restarts, 'time')}")
    return "agora: " + " · ".join(parts)


def saved_words(account: Account) -> str:
    """Return the saving in words, marked as an estimate and never rounded up.

    >>> saved_words(Account(edited=1, saved=0.3379)), saved_words(Account(edited=1, saved=-0.101))
    ('about $0.33 saved', 'about $0.11 more than unshortened')
    """
    if would := shadow_calls(account):
        less = "saved" if account.saved >= 0 else "cost"
        return f"shortening {would:,} would have {less} about {dollars(account.saved)}"
    if not account.edited or round(account.saved, 4) == 0:
        return "nothing saved"
    if account.saved < 0:
        return f"about {dollars(account.saved)} more than unshortened"
    return f"about {dollars(account.saved)} saved"


def shadow_calls(account: Account) -> int:
    """Return the number of calls that shadow mode left unshortened."""
    return account.unchanged.get("shadow", 0)


def dollars(amount: float) -> str:
    """Return the size of an amount in two or three digits, gains rounded down and losses up.

    >>> dollars(1.619), dollars(0.03128), dollars(-0.101)
    ('$1.61', '$0.0312', '$0.11')
    """
    digits = 2 if abs(amount) >= 0.1 else 4
    steps = round(abs(amount) * 10**digits, 6)
    return f"${(math.floor(steps) if amount >= 0 else math.ceil(steps)) / 10**digits:.{digits}f}"


def quota(account: Account) -> str:
    """Return the used part of a subscription's quota, or an empty text if no answer reported it.

    >>> quota(Account(quota={"5h": 0.042, "7d": 0.006}))
    "4.2% of the 5-hour quota and 0.6% of the week's used"
    """
    shares = [f"{share:.1%} of {_WINDOWS[window]}" for window, share in account.quota.items()]
    return f"{' and '.join(shares)} used" if shares else ""


def _dollars(account: Account) -> str:
    if not account.billed:
        return "the provider reported no usage, so there are no dollars"
    names = sorted(account.models, key=lambda name: -account.models[name])
    spent = f"${account.dollars:.2f}" if account.dollars >= 0.1 else f"${account.dollars:.4f}"
    some = f" for {account.billed:,} of them" if account.billed < account.calls else ""
    return f"{spent}{some} at {' and '.join(names)} prices, {saved_words(account)}"


def _unchanged(account: Account) -> list[str]:
    reasons: dict[str, int] = {}
    for reason, count in account.unchanged.items():
        if reason != "shadow":
            words = _REASONS.get(reason, reason.replace("_", " "))
            reasons[words] = reasons.get(words, 0) + count
    if not reasons:
        return []
    ordered = sorted(reasons.items(), key=lambda pair: -pair[1])
    why = ", ".join(f"{count:,} {words}" for words, count in ordered)
    return [f"{sum(reasons.values()):,} unchanged ({why})"]


def _asked_again(account: Account) -> str:
    """Return how many shortened calls were repeated, in words.

    >>> _asked_again(Account(asked_again=7, expected_again=2.6))
    '7 calls asked again for something shortened (4 more than usual)'
    >>> _asked_again(Account(asked_again=1, expected_again=1.2))
    '1 call asked again for something shortened (no more than usual)'
    """
    extra = round(account.asked_again - account.expected_again)
    more = f"{extra:,}" if extra > 0 else "no"
    asked = f"{_count(account.asked_again, 'call')} asked again"
    return f"{asked} for something shortened ({more} more than usual)"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
