from agora.gateway.watching.metrics import Meter
from agora.wrapping.account import NO_STEPS, Account, account_of


def counted(meter: Meter, restarts: int = 0) -> Account:
    return account_of(meter.snapshot(), restarts)


def call(meter: Meter, reason: str, *, route: str = "messages", rung: int = 2) -> None:
    meter.request(route, "t", rung, reason, 0.001, tokens_in=9_000, tokens_out=8_000)
    meter.upstream(route, 200, upstream="a", model="claude-sonnet-4-5", tenant="t")
    meter.usage(
        route,
        "t",
        100,
        1_000,
        200,
        50,
        0.25,
        dollars=0.75,
        upstream="a",
        model="claude-sonnet-4-5",
    )


def test_dollars_are_those_that_were_counted_call_by_call() -> None:
    meter = Meter()
    call(meter, "compressed", rung=0)
    call(meter, "continued", rung=0)

    account = counted(meter)

    assert account.dollars == 1.5
    assert (account.calls, account.edited) == (2, 2)
    assert (account.tokens_in, account.tokens_out) == (2_600, 100)
    assert account.models == ("claude-sonnet-4-5",)
    assert "$0.50 less than without" in account.line()


def test_what_is_not_the_conversation_is_no_call() -> None:
    meter = Meter()
    call(meter, "not_worth_it_yet")
    meter.request("count_tokens", "t", 2, "below_threshold", 0.001)
    meter.request("other", "t", 2, "unread", 0.001)

    account = counted(meter)

    assert account.calls == 1
    assert account.left_alone == {"not worth it yet": 1}


def test_a_provider_that_reports_nothing_is_said_to() -> None:
    meter = Meter()
    meter.request("chat", "t", 0, "compressed", 0.001, tokens_in=9_000, tokens_out=8_000)

    line = counted(meter).line()

    assert "not reported by the provider (1,000 elided)" in line
    assert "$" not in line


def test_an_agent_without_steps_is_said_to_have_none() -> None:
    meter = Meter()
    for _ in range(12):
        call(meter, "nothing_to_elide", route="chat")
    for _ in range(3):
        meter.no_steps("chat", "t")

    assert counted(meter).left_alone == {"nothing to elide": 9, NO_STEPS: 3}


def test_troubles_are_in_the_line() -> None:
    meter = Meter()
    meter.exchange("messages", upstream="a", seconds=1.0, error="truncated")

    assert counted(meter, 2).line() == (
        "agora: no calls; errors: 1 truncated; the gateway was restarted 2 times"
    )


def test_an_edit_that_lost_money_is_said_to_cost_more() -> None:
    account = Account(calls=3, dollars=1.0, dollars_saved=-0.2, edited=1, models=("m",))

    assert "$0.20 more than without" in account.line()


def test_in_shadow_the_line_says_what_would_have_been() -> None:
    account = Account(
        calls=3,
        tokens_in=9,
        tokens_elided=4,
        dollars=1.0,
        dollars_saved=0.2,
        edited=1,
        models=("m",),
        shadow=True,
    )

    line = account.line()

    assert "(4 would be elided)" in line
    assert "$0.20 less with edits" in line
    assert "1 would be edited" in line
