from hypothesis import given
from hypothesis import strategies as st

from agora.core.memo import Memo


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
        assert sum(map(len, memo._kept)) <= most


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


def test_when_the_room_is_used_up_it_starts_again() -> None:
    counted = Counted()
    memo = Memo(counted, 1_000)
    for text in ("a" * 400, "b" * 400, "a" * 400):
        memo(text)

    assert counted.asked == 3
