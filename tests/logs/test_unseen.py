import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Step, Trajectory
from agora.core import Utterance

# Private: what a log leaves out, by sizes alone.
from agora.logs import Moment, Recording, moments_of
from agora.logs.moments import prompt_tokens
from agora.logs.unseen import Unseen, inferred, ratio, was_cut

GROWTH = st.lists(st.integers(1, 5_000), min_size=2, max_size=60)


def rising(first: int, growth: list[int]) -> list[int]:
    out = [first]
    for more in growth:
        out.append(out[-1] + more)
    return out


@given(st.integers(0, 5_000), GROWTH, st.integers(0, 60_000), st.floats(0.75, 1.9))
def test_a_constant_and_a_scale_are_found_again(
    first: int, growth: list[int], unseen: int, scale: float
) -> None:
    counted = rising(first, growth)

    found = inferred(counted, [round(unseen + scale * count) for count in counted])

    smallest = max(1, min(growth))
    assert found.scale == pytest.approx(scale, abs=1.1 / smallest)
    assert found.tokens <= unseen + first / smallest + 2


@given(st.integers(1, 5_000), GROWTH, st.lists(st.integers(0, 9_000), min_size=60, max_size=60))
def test_the_parts_add_up_to_what_was_billed(
    first: int, growth: list[int], hidden: list[int]
) -> None:
    counted = rising(first, growth)
    grown = rising(0, hidden)
    billed = [20_000 + count + more for count, more in zip(counted, grown, strict=False)]

    found = inferred(counted, billed)

    if found.grown:
        for count, more, whole in zip(counted, found.grown, billed, strict=True):
            assert found.tokens + found.scale * count + more == pytest.approx(whole, abs=1)
    assert found.tokens >= 0


def test_one_long_hidden_thought_does_not_move_the_scale() -> None:
    counted = rising(40, [900] * 20)
    billed = [
        26_000 + round(1.15 * count) + (25_000 if at > 9 else 0) for at, count in enumerate(counted)
    ]

    found = inferred(counted, billed)

    assert found.scale == pytest.approx(1.15, abs=0.01)
    assert found.tokens == pytest.approx(26_000, abs=5)
    assert found.grown[-1] == pytest.approx(25_000, abs=30)


def test_one_call_says_how_much_is_unseen_but_not_the_scale() -> None:
    assert inferred([12], [25_353]) == Unseen(25_341, 1.0, (0,))
    assert inferred([100, 200], [50, 100]) == Unseen(scale=0.5)
    assert ratio([0, 0], [10, 20]) == 1.0


def test_a_prompt_that_shrinks_while_its_log_grows_was_cut() -> None:
    assert was_cut([50_000, 51_000], [90_000, 60_000])
    assert was_cut([40_000, 100_000], [60_000, 65_000])
    assert not was_cut([50_000, 51_000], [90_000, 89_000])
    assert not was_cut([50_000, 20_000], [90_000, 45_000])
    assert not was_cut([1_000, 1_100], [500, 550])


def trajectory() -> Trajectory:
    step = {"action": "ls", "observation": "a", "tokens": 100}
    return Trajectory(
        task="Mend it.",
        preamble="Mend it.",
        preamble_tokens=10,
        steps=(
            Step(number=1, removable=False, action_tokens=15, **step),  # type: ignore[arg-type]
            Step(number=2, **step),  # type: ignore[arg-type]
        ),
        utterances=(Utterance(after=2, text="Ok.", tokens=5, by_user=False),),
    )


def test_what_is_unseen_enters_the_sizes_and_none_of_it_can_be_elided() -> None:
    shown = trajectory()
    calls = moments_of(Recording(id="a", format="anthropic", messages=[], calls=(9,)), shown)
    unseen = Unseen(2_000, 2.0, (0, 100, 60, 300))

    assert calls == [Moment(0, 0), Moment(1, 0), Moment(2, 0), Moment(2, 1)]
    assert prompt_tokens(shown, calls) == [10, 110, 210, 215]
    whole = unseen.onto(shown, calls)

    assert whole.preamble_tokens == 1_010
    first, second = whole.steps
    assert (first.tokens, first.residue_tokens, first.action_tokens) == (150, 65, 65)
    # The provider counted less there: that is set off against what comes next.
    assert (second.tokens, second.residue_tokens, second.action_tokens) == (100, 0, 0)
    assert whole.utterances[0].tokens == 105
    assert prompt_tokens(whole, calls)[-1] == 1_010 + 150 + 100 + 105
