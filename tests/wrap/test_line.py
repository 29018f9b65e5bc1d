"""The closing line and the status line: what they say of an account."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="the extra wrap is not installed")

from agora.service import Account

# Private: any account as a line.
from agora.wrapping.line import closing_line, dollars

BILLED: dict[str, Any] = {
    "calls": 3,
    "billed": 3,
    "dollars": 1.0,
    "models": {"m": 1.0},
    "edited": 1,
}


@given(st.floats(-1_000, 1_000))
def test_a_saving_is_never_rounded_up(amount: float) -> None:
    said = float(dollars(amount).removeprefix("$"))

    if amount >= 0:
        assert said <= amount + 1e-6
    else:
        assert said >= -amount - 1e-6


def test_an_edit_that_lost_money_is_said_to_cost_more() -> None:
    line = closing_line(Account(**BILLED, saved=-0.2))

    assert "about $0.20 more than unshortened" in line


def test_in_shadow_the_line_says_what_would_have_been() -> None:
    account = Account(**{**BILLED, "edited": 0}, saved=0.25, unchanged={"shadow": 2})

    assert closing_line(account) == (
        "agora: 3 calls · $1.00 at m prices, shortening 2 would have saved about $0.25"
    )


def test_calls_without_usage_are_not_priced() -> None:
    some = closing_line(Account(**{**BILLED, "calls": 5}, saved=0.5))
    none = closing_line(Account(calls=5, edited=1))

    assert "$1.00 for 3 of them at m prices" in some
    assert "reported no usage" in none
    assert "$" not in none


def test_a_provider_that_never_answered_is_named_and_nothing_else() -> None:
    cause = "no answer from 127.0.0.1:9: connection refused"
    account = Account(calls=7, errors={"upstream": 7}, last_error=cause, unchanged={"too_short": 7})

    assert closing_line(account) == f"agora: 7 calls · 7 without an answer (last: {cause})"


def test_troubles_are_in_the_line() -> None:
    account = Account(**BILLED, saved=0.5, errors={"truncated": 1}, thinking_blocks=2)
    account.asked_again, account.expected_again = 3, 0.8

    line = closing_line(account, 2)

    assert "2 thinking blocks no longer sent" in line
    assert "3 calls asked again for something shortened (2 more than usual)" in line
    assert line.endswith("1 cut short · the proxy was restarted 2 times")
