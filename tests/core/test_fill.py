from hypothesis import given
from hypothesis import strategies as st

from agora.core.fill import fill
from agora.core.trajectory import Step


def make_steps(*tokens: int) -> list[Step]:
    return [Step(number=i + 1, action="go", observation="", tokens=n) for i, n in enumerate(tokens)]


def test_a_small_step_takes_the_room_a_better_one_is_too_big_for() -> None:
    selection = fill(make_steps(50, 10, 5), [0.9, 0.5, 0.1], floor={3}, budget=20)

    assert selection.kept == (2, 3)


def test_of_two_equal_scores_the_newer_step_stays() -> None:
    assert fill(make_steps(5, 5), [0.5, 0.5], floor=(), budget=5).kept == (2,)


@given(data=st.data(), budget=st.integers(0, 2_000))
def test_the_floor_is_always_kept_and_only_the_floor_may_overspend(
    data: st.DataObject, budget: int
) -> None:
    steps = make_steps(*data.draw(st.lists(st.integers(0, 300), min_size=1)))
    scores = data.draw(st.lists(st.floats(0, 1), min_size=len(steps), max_size=len(steps)))
    floor = data.draw(st.sets(st.integers(1, len(steps))))

    selection = fill(steps, scores, floor=floor, budget=budget)

    assert floor <= set(selection.kept)
    assert selection.tokens == sum(steps[n - 1].tokens for n in selection.kept)
    assert selection.tokens <= max(budget, sum(steps[n - 1].tokens for n in floor))


@given(data=st.data(), budget=st.integers(0, 2_000))
def test_no_step_that_still_fits_is_left_out(data: st.DataObject, budget: int) -> None:
    steps = make_steps(*data.draw(st.lists(st.integers(0, 300), min_size=1)))
    scores = data.draw(st.lists(st.floats(0, 1), min_size=len(steps), max_size=len(steps)))

    selection = fill(steps, scores, floor=(), budget=budget)

    left_out = [s for s in steps if s.number not in selection.kept]
    assert all(selection.tokens + step.tokens > budget for step in left_out)


def test_a_masked_step_is_charged_for_what_stays_of_it() -> None:
    step = Step(number=1, action="", observation="", tokens=50, form="mask", residue_tokens=20)

    assert fill([step], [0.5], floor=(), budget=49).tokens == 20
    assert fill([step], [0.5], floor=(), budget=50).tokens == 50


def test_a_kept_step_gives_its_line_back_and_may_cost_a_marker() -> None:
    steps = make_steps(30)

    assert fill(steps, [1.0], floor=(), budget=30, line_tokens={1: 8}).kept == (1,)
    assert fill(steps, [1.0], floor=(), budget=30, line_tokens={1: 8}, marker_tokens=9).kept == ()
