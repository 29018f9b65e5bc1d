"""What a session uses of a subscription's quota, against windows that fill by known weights."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.gateway.watching.bill import Billed
from agora.gateway.watching.quota import tell, told
from agora.wrapping.account import Account
from agora.wrapping.quota import (
    LEAST_TICKS,
    Call,
    Quota,
    Weight,
    keep,
    quota_of,
    read_calls,
    weight_of,
    weights,
)

Tokens = tuple[int, int, int, int]


def session(source: random.Random, calls: int) -> list[Tokens]:
    """Return the tokens of an agent's calls: a prompt that grows, and is edited now and then."""
    found, prompt = [], 20_000
    for n in range(calls):
        new = source.randint(300, 6_000)
        if n and n % 25 == 0:
            prompt //= 3
            found.append((3, 10_000, prompt - 10_000 + new, source.randint(50, 1_500)))
        else:
            found.append((3, prompt, new, source.randint(50, 1_500)))
        prompt += new
    return found


def window(
    tokens: Sequence[Tokens], weigh: Sequence[float], *, total: float = 0.6, digits: int = 2
) -> list[Call]:
    """Return calls whose window fills by weights, told in so many digits."""
    loads = [sum(w * t for w, t in zip(weigh, one, strict=True)) for one in tokens]
    unit = total / sum(loads)
    used, calls = 0.1, []
    for one, load in zip(tokens, loads, strict=True):
        used += load * unit
        calls.append(
            Call(tokens=one, used={"5h": round(used, digits)}, resets={"5h": "1790814600"})
        )
    return calls


@pytest.mark.parametrize(
    ("read", "least", "most"), [(0.0, 0.0, 0.1), (0.1, 0.0, 0.3), (1.0, 0.1, math.inf)]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_known_weight_is_within_its_interval_though_told_in_whole_per_cent(
    read: float, least: float, most: float, seed: int
) -> None:
    calls = window(session(random.Random(seed), 180), (1.0, read, 1.25, 5.0))

    found = weight_of(calls)

    assert found is not None
    assert found.beside == "written"
    true = read / 1.25
    high = math.inf if found.high is None else found.high
    assert found.low - 0.003 <= true <= high + 0.003
    assert found.low >= least
    assert high <= most


@given(
    weigh=st.tuples(*[st.floats(0.05, 5.0)] * 4),
    seed=st.integers(0, 1_000),
)
@settings(deadline=None, max_examples=25)
def test_without_rounding_the_weights_are_found_exactly(
    weigh: tuple[float, ...], seed: int
) -> None:
    source = random.Random(seed)
    tokens = [tuple(source.randint(1, 9_000) for _ in range(4)) for _ in range(40)]
    intervals = [(one, sum(w * t for w, t in zip(weigh, one, strict=True))) for one in tokens]

    assert weights(intervals) == pytest.approx(weigh, rel=1e-2)


def test_where_reads_are_free_edits_lose_and_where_they_count_they_do_not() -> None:
    tokens = session(random.Random(1), 400)

    free = weight_of(window(tokens, (1.0, 0.0, 1.25, 5.0), total=0.9, digits=4))
    priced = weight_of(window(tokens, (1.0, 0.1, 1.25, 5.0)))

    assert free is not None
    assert free.edits_lose
    assert priced is not None
    assert not priced.edits_lose


def test_against_uncached_tokens_where_there_are_more_of_those() -> None:
    source = random.Random(3)
    tokens = [
        (source.randint(500, 9_000), source.randint(2_000, 60_000), 0, source.randint(50, 900))
        for _ in range(150)
    ]

    found = weight_of(window(tokens, (1.0, 0.1, 1.0, 5.0)))

    assert found is not None
    assert found.beside == "fresh"
    assert found.high is not None
    assert found.low <= 0.1 <= found.high
    assert found.break_even == pytest.approx(1.25 / 36)


def test_a_window_that_begins_anew_is_not_counted_backwards() -> None:
    tokens = session(random.Random(5), 100)
    first = window(tokens[:50], (1.0, 0.1, 1.25, 5.0), total=0.5)
    second = [
        Call(tokens=call.tokens, used={"5h": call.used["5h"] - 0.1}, resets={"5h": "1790832600"})
        for call in window(tokens[50:], (1.0, 0.1, 1.25, 5.0), total=0.3)
    ]

    found = quota_of(first + second)

    assert found is not None
    assert found.used["5h"] == pytest.approx(0.8, abs=0.05)


def test_from_few_intervals_or_without_reads_no_weight_is_told() -> None:
    few = window(session(random.Random(7), 30), (1.0, 0.1, 1.25, 5.0), total=0.05)
    unread = window([(100 + n, 0, 0, 50 * n) for n in range(60)], (1.0, 0.1, 1.25, 5.0))

    assert len({call.used["5h"] for call in few}) <= LEAST_TICKS
    assert weight_of(few) is None
    assert weight_of(unread) is None
    # A window that only output fills says nothing of the prompt.
    silent = weight_of(window(session(random.Random(2), 90), (0.0, 0.0, 0.0, 1.0), digits=6))
    assert silent is not None
    assert not silent.edits_lose


def test_what_a_gateway_wrote_down_is_read_and_what_is_none_of_it_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "quota.jsonl"
    monkeypatch.setenv("AGORA_QUOTA_FILE", str(file))
    answer = [
        (b"anthropic-ratelimit-unified-5h-utilization", b"0.42"),
        (b"anthropic-ratelimit-unified-5h-reset", b"1790814600"),
        (b"anthropic-ratelimit-unified-7d-utilization", b"nothing"),
        (b"anthropic-ratelimit-unified-status", b"allowed"),
        (b"anthropic-ratelimit-input-tokens-limit", b"400000"),
        (b"anthropic-ratelimit-input-tokens-remaining", b"100000"),
        (b"anthropic-ratelimit-unified-representative-claim", b"five_hour"),
        (b"request-id", b"req_1"),
    ]

    tell(told(answer), Billed(fresh=3, read=900, written=40, output=7))
    tell({}, Billed(fresh=3))
    with file.open("a") as more:
        more.write('no json\n{"told": {}}\n[]\n')

    [call] = read_calls(file)
    assert call.tokens == (3, 900, 40, 7)
    assert call.used == {"5h": 0.42}
    assert call.resets == {"5h": "1790814600"}
    assert call.input_left == 0.25
    assert call.status == "allowed"
    assert "req_1" not in file.read_text()
    assert read_calls(tmp_path / "none") == []


def test_without_a_file_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGORA_QUOTA_FILE", raising=False)

    tell({"unified-5h-utilization": "0.42"}, Billed())


def test_of_earlier_sessions_the_newest_calls_are_kept(tmp_path: Path) -> None:
    new, kept = tmp_path / "new", tmp_path / "state" / "agora" / "quota.jsonl"

    keep(new, kept)
    assert not kept.exists()
    for at in range(3):
        new.write_text(json.dumps(at) + "\n" + json.dumps(at + 10) + "\n")
        keep(new, kept, most=3)

    assert kept.read_text().split() == ["11", "2", "12"]


def test_the_line_has_the_quota_beside_the_dollars() -> None:
    weight = Weight(weight=0.104, low=0.081, high=0.133, beside="written", changes=31)
    quota = Quota(used={"5h": 0.042, "7d": 0.0061}, weight=weight)
    account = Account(calls=9, tokens_in=90, dollars=0.5, models=("claude-opus-5",), quota=quota)

    assert (
        "$0.50 by claude-opus-5, 4.2% of the 5-hour quota and 0.6% of the week's used, where a "
        "cached token counts as 0.10 [0.08, 0.13] of a written one (31 calls); 0 edited"
    ) in account.line()
    open_above = replace(quota, weight=replace(weight, high=None))
    assert "a cached token counts as at least 0.08 of a written one" in open_above.words()
    assert not replace(weight, high=None).edits_lose
    key = Account(calls=1, quota=Quota(used={}, least_input_left=0.25))
    assert "at least 25% of the key's input tokens per minute left" in key.line()
    assert Account(calls=1, quota=Quota(used={})).line() == Account(calls=1).line()
    assert quota_of([]) is None
