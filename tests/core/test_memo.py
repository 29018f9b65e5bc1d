import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.core.memo import Memo, Store, occupancy, share_out


class Counted:
    """Reverses a text, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, text: str) -> str:
        self.asked += 1
        return text[::-1]


@given(texts=st.lists(st.text(max_size=2_000)), most=st.integers(0, 5_000))
def test_it_says_what_the_function_says_and_keeps_no_more_than_it_may(
    texts: list[str], most: int
) -> None:
    memo = Memo(Counted(), most)

    for text in texts:
        assert memo(text) == text[::-1]
        used, limit, *_ = memo.occupancy()
        assert used <= limit == most


def test_a_text_that_comes_back_is_not_worked_out_again() -> None:
    counted = Counted()
    memo = Memo(counted, 1_000)

    assert [memo("a"), memo("b"), memo("a")] == ["a", "b", "a"]
    assert counted.asked == 2


def test_a_text_too_long_to_keep_pushes_out_nothing() -> None:
    counted = Counted()
    memo = Memo(counted, 1_000)
    memo("a")

    memo("x" * 1_000)
    memo("a")

    assert counted.asked == 2


def test_when_the_room_is_used_up_the_least_recently_used_goes() -> None:
    counted = Counted()
    memo = Memo(counted, 1_300)
    for text in ("a" * 400, "b" * 400, "a" * 400, "c" * 400):
        memo(text)
    assert counted.asked == 3

    memo("a" * 400)
    assert counted.asked == 3
    memo("b" * 400)
    assert counted.asked == 4


@given(
    puts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=60),
    most=st.integers(0, 100),
)
def test_a_store_keeps_the_latest_that_fit(puts: list[tuple[int, int]], most: int) -> None:
    store: Store[int, int] = Store(most)
    order: dict[int, int] = {}
    for key, weight in puts:
        store.put(key, weight, weight)
        if weight <= most:
            order.pop(key, None)
            order[key] = weight
        while sum(order.values()) > most:
            del order[next(iter(order))]

    assert store.occupancy().used == sum(order.values())
    assert [key for key in range(10) if store.get(key) is not None] == sorted(order)
    for key in [*order]:
        assert store.take(key) == order[key]
        assert store.take(key) is None
    assert store.occupancy().used == 0


def test_named_stores_share_out_what_there_is_and_tell_how_full_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agora.core.memo._named", {})
    monkeypatch.setattr("agora.core.memo._defaults", {})
    one = Memo(str.upper, 1_000, name="one")
    Store[str, int](3_000, name="two")
    one("a" * 100)
    one("a" * 100)
    one("b" * 100)
    assert occupancy()["one"] == (600, 1_000, 1, 2, 0)

    share_out(1_600)

    assert occupancy()["one"] == (300, 400, 1, 2, 1)
    assert occupancy()["two"].most == 1_200


def test_threads_that_use_one_store_leave_its_weight_right() -> None:
    memo = Memo(str.upper, 10_000)

    def read(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(2_000):
            text = "x" * chance.randrange(100)
            assert memo(text) == text.upper()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))

    used, most, hits, misses, _ = memo.occupancy()
    assert used <= most
    assert hits + misses == 8_000
