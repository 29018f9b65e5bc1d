from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.core.prices import PriceSheet, shipped_sheets
from agora.experiment.assignment import ANONYMOUS
from agora.gateway.config import Tenants
from agora.gateway.routing.tenants import tenant_of
from agora.gateway.watching.bill import Billed, Sent, net_saving
from agora.gateway.watching.ledger import Account, Ledger

FEW = settings(deadline=None, max_examples=60)
SETTINGS = Tenants(window_requests=100, rest_seconds=60.0, longest_rest_seconds=240.0)
DOLLARS = st.floats(-5, 5)
SHEET = PriceSheet(name="s", input=1.0, read=0.1, write=1.25, output=0, minimum_prefix=1_024)


def spend(account: Account, amounts: list[float], now: float = 0.0) -> Account:
    for amount in amounts:
        account = account.add(amount, now, SETTINGS)
    return account


@FEW
@given(key=st.binary(min_size=1, max_size=80), secret=st.binary(min_size=1, max_size=32))
def test_a_tenants_name_has_nothing_of_its_key_in_it(key: bytes, secret: bytes) -> None:
    name = tenant_of([(b"x-api-key", key)], Tenants(), secret)

    if key.strip():
        assert name.startswith("t-")
        assert len(name) == 14
        assert name == tenant_of([(b"X-Api-Key", key)], Tenants(), secret)
        assert name != tenant_of([(b"x-api-key", key)], Tenants(), secret + b"other")
    else:
        assert name == ANONYMOUS


def test_one_key_is_one_tenant_in_whatever_header_it_comes() -> None:
    names = {
        tenant_of([header], Tenants(), b"s")
        for header in (
            (b"authorization", b"Bearer sk-1"),
            (b"authorization", b"bearer  sk-1 "),
            (b"authorization", b"sk-1"),
            (b"x-api-key", b"sk-1"),
            (b"api-key", b"sk-1"),
            (b"x-goog-api-key", b"sk-1"),
        )
    }

    assert len(names) == 1


def test_a_header_names_the_tenant_only_where_it_is_trusted() -> None:
    headers = [(b"X-Tenant", b"team-a"), (b"authorization", b"Bearer sk-1")]
    trusting = Tenants(header="x-tenant")

    assert tenant_of(headers, trusting, b"s") == "team-a"
    assert tenant_of(headers, Tenants(), b"s").startswith("t-")
    assert tenant_of([(b"x-tenant", b"")], trusting, b"s") == ANONYMOUS


@FEW
@given(st.binary(min_size=1, max_size=100))
def test_a_tenant_is_always_fit_for_a_label(value: bytes) -> None:
    name = tenant_of([(b"x-tenant", value)], Tenants(header="x-tenant"), b"s")

    assert 1 <= len(name) <= 64
    assert all(c.isascii() and (c.isalnum() or c in "._-") for c in name)


@FEW
@given(st.lists(DOLLARS, max_size=99))
def test_nobody_stands_down_before_a_whole_window(amounts: list[float]) -> None:
    assert spend(Account(), amounts).may_compress(0.0)


@FEW
@given(st.lists(DOLLARS, min_size=100, max_size=100))
def test_a_whole_window_stands_down_exactly_when_its_sum_is_negative(amounts: list[float]) -> None:
    account = spend(Account(), amounts)
    # Sums of floats depend on their order: near nought either answer is right.
    if abs(sum(amounts)) > 1e-9:
        assert account.may_compress(0.0) == (sum(amounts) > 0)


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.floats(0, 5), min_size=100, max_size=200),
    st.lists(DOLLARS, min_size=100, max_size=100),
)
def test_only_the_last_window_counts(good: list[float], last: list[float]) -> None:
    good = good[: len(good) // 10 * 10]
    account = spend(Account(), good)
    assert account.may_compress(0.0)
    spoilt = False
    for at, amount in enumerate(last):
        account = account.add(amount, 0.0, SETTINGS)
        spoilt = spoilt or not account.may_compress(0.0)
        if spoilt:
            window = (good + last[: at + 1])[-100:]
            assert sum(window) < 1e-9
            return
    assert sum(last) > -1e-9


@FEW
@given(st.lists(st.floats(0, 5), max_size=1_000))
def test_a_tenant_that_saves_is_never_stood_down(amounts: list[float]) -> None:
    account = Account()
    for at, amount in enumerate(amounts):
        account = account.add(amount, float(at), SETTINGS)
        assert account.may_compress(float(at))


def test_requests_where_nothing_was_elided_are_no_reason_to_stand_down() -> None:
    assert spend(Account(), [0.0] * 5_000).may_compress(0.0)


def test_the_way_back_is_a_new_window_and_each_rest_is_twice_as_long_up_to_a_limit() -> None:
    account, now, rests = Account(), 0.0, []
    for _ in range(5):
        account = spend(account, [-1.0] * 100, now)
        assert not account.may_compress(now)
        start = now
        while not account.may_compress(now):
            now += 1.0
        rests.append(now - start)

    assert rests == [60.0, 120.0, 240.0, 240.0, 240.0]


def test_a_good_window_forgives_the_rests_before_it() -> None:
    account = spend(Account(), [-1.0] * 100)
    account = spend(account, [1.0] * 100, 60.0)
    account = spend(account, [-9.0] * 100, 61.0)

    assert account.rests == 1
    assert account.may_compress(121.0)


@FEW
@given(st.lists(DOLLARS, max_size=50))
def test_what_comes_in_while_a_tenant_rests_changes_nothing(amounts: list[float]) -> None:
    resting = spend(Account(), [-1.0] * 100)

    assert spend(resting, amounts, 30.0) == resting


def test_a_ledger_says_once_that_a_tenant_stands_down_and_keeps_tenants_apart() -> None:
    ledger = Ledger(SETTINGS)
    said = [ledger.add("bad", -1.0, 0.0) for _ in range(150)]
    for _ in range(150):
        ledger.add("good", 1.0, 0.0)

    assert said.count(True) == 1
    assert said.index(True) == 99
    assert not ledger.may_compress("bad", 0.0)
    assert ledger.may_compress("bad", 60.0)
    assert ledger.may_compress("good", 0.0)
    assert ledger.may_compress("new", 0.0)
    assert ledger.resting(0.0) == 1
    assert ledger.resting(60.0) == 0


def test_a_ledger_that_is_told_not_to_never_stands_down() -> None:
    ledger = Ledger(replace(SETTINGS, stand_down=False))

    assert not any(ledger.add("bad", -1.0, 0.0) for _ in range(500))
    assert ledger.may_compress("bad", 0.0)
    assert ledger.resting(0.0) == 0


def test_a_ledger_forgets_the_tenant_it_has_not_seen_for_longest() -> None:
    ledger = Ledger(SETTINGS, most=3)
    for _ in range(100):
        ledger.add("bad", -1.0, 0.0)
    for name in ("a", "b"):
        ledger.add(name, 0.0, 0.0)
    assert not ledger.may_compress("bad", 0.0)

    ledger.add("c", 0.0, 0.0)

    assert ledger.may_compress("bad", 0.0)


TOKENS = st.integers(0, 300_000)
BILLED = st.builds(Billed, fresh=TOKENS, read=TOKENS, written=TOKENS, output=TOKENS)


@FEW
@given(billed=BILLED, tokens=TOKENS, newest=TOKENS)
def test_a_request_that_went_on_as_it_came_saved_nothing(
    billed: Billed, tokens: int, newest: int
) -> None:
    sent = Sent(tokens_in=tokens, tokens_out=tokens, new_tokens=newest)
    for sheet in shipped_sheets().values():
        assert net_saving(sheet, billed, sent) == 0.0


@FEW
@given(billed=BILLED, out=TOKENS, removed=TOKENS, newest=TOKENS)
def test_a_call_between_edits_never_counts_as_a_loss(
    billed: Billed, out: int, removed: int, newest: int
) -> None:
    # One exception, which has its own test: a prompt that shrank out of the cache.
    if billed.read or billed.prompt >= SHEET.minimum_prefix:
        sent = Sent(tokens_in=out + removed, tokens_out=out, new_tokens=newest)
        saved = net_saving(SHEET, billed, sent)
        assert saved >= -1e-12


@FEW
@given(
    out=st.integers(2_000, 100_000), removed=st.integers(1, 200_000), newest=st.integers(0, 2_000)
)
def test_an_edit_is_never_credited_with_more_than_the_whole_prompt_it_spared(
    out: int, removed: int, newest: int
) -> None:
    billed = Billed(written=out)
    sent = Sent(tokens_in=out + removed, tokens_out=out, new_tokens=newest, breaks=True)
    saved = net_saving(SHEET, billed, sent)
    whole_read = ((out + removed) * 0.1 + newest * 1.15) / 1e6

    assert saved <= whole_read - out * 1.25 / 1e6 + 1e-12


def test_without_a_cache_every_token_removed_is_saved_at_once() -> None:
    sheet = SHEET.no_cache()
    billed = Billed(fresh=10_000)

    for edited in (True, False):
        sent = Sent(tokens_in=30_000, tokens_out=10_000, new_tokens=500, breaks=edited)
        saved = net_saving(sheet, billed, sent)
        assert saved == pytest.approx(0.02)


def test_a_prompt_that_shrank_out_of_the_cache_counts_as_a_loss() -> None:
    small = Billed(fresh=1_000)
    saved = net_saving(SHEET, small, Sent(tokens_in=3_000, tokens_out=1_000, new_tokens=100))

    assert saved == pytest.approx(((2_900 * 0.1 + 100) - 1_000) / 1e6)
    assert saved < 0


def test_writes_that_a_provider_makes_by_itself_and_does_not_report_are_not_taken_for_plain() -> (
    None
):
    by_ours = Sent(tokens_in=30_000, tokens_out=10_000, new_tokens=500, breaks=True)
    reported = net_saving(SHEET, Billed(written=10_000), by_ours)
    silent = net_saving(SHEET, Billed(fresh=10_000), by_ours)
    asked = replace(SHEET, breakpoints=4)
    unasked = net_saving(asked, Billed(fresh=10_000), by_ours)

    assert silent == pytest.approx(reported)
    assert unasked > reported


def test_our_counts_are_put_right_by_the_providers() -> None:
    by_ours = Sent(tokens_in=30_000, tokens_out=10_000, new_tokens=500)
    half = net_saving(SHEET, Billed(read=5_000), by_ours)
    whole = net_saving(SHEET, Billed(read=10_000), by_ours)

    assert whole == pytest.approx(2 * half)


def test_an_edit_and_the_calls_after_it_add_up_to_what_the_trajectory_saved() -> None:
    # A trajectory of 60 calls, one edit at the 30th; both bills in full, by hand.
    step, kept = 1_000, 8_000
    plain = edited = claimed = 0.0
    for call in range(1, 61):
        prompt = call * step
        plain += ((prompt - step) * 0.1 + step * 1.25) / 1e6
        if call < 30:
            billed, out = Billed(read=prompt - step, written=step), prompt
        elif call == 30:
            billed, out = Billed(written=kept), kept
        else:
            out = kept + (call - 30) * step
            billed = Billed(read=out - step, written=step)
        edited += (billed.read * 0.1 + billed.written * 1.25) / 1e6
        sent = Sent(tokens_in=prompt, tokens_out=out, new_tokens=step, breaks=call == 30)
        claimed += net_saving(SHEET, billed, sent)

    assert claimed == pytest.approx(plain - edited)
    assert claimed > 0


@FEW
@given(whole=st.integers(2_000, 200_000), read=st.floats(0, 1), newest=st.integers(0, 2_000))
def test_an_edited_prompt_that_goes_on_whole_is_booked_as_what_it_costs_more(
    whole: int, read: float, newest: int
) -> None:
    known = int((whole - newest) * read)
    billed = Billed(read=known, written=whole - known)
    sent = Sent(tokens_in=whole, tokens_out=whole, new_tokens=newest, breaks=True)

    unread = whole - newest - known
    assert net_saving(SHEET, billed, sent) == pytest.approx(-unread * 1.15 / 1e6)


def test_after_a_pause_the_cache_would_have_known_nothing_either() -> None:
    billed = Billed(written=10_000)
    sent = Sent(tokens_in=30_000, tokens_out=10_000, breaks=True, warm=False)

    assert net_saving(SHEET, billed, sent) == pytest.approx(20_000 * 1.25 / 1e6)
