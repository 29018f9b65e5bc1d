from collections.abc import Collection, Sequence

from hypothesis import given
from hypothesis import strategies as st

from agora.core.past import Past
from agora.core.selection.plan import whole_or_gone
from agora.core.trajectory import Step, Trajectory
from agora.core.worth import StepWorth


def make_steps(*tokens: int) -> list[Step]:
    return [Step(number=i + 1, action="go", observation="", tokens=n) for i, n in enumerate(tokens)]


def kept(
    steps: Sequence[Step], scores: Sequence[float], *, floor: Collection[int] = (), budget: int
) -> set[int]:
    trajectory = Trajectory(task="go", preamble="", preamble_tokens=0, steps=tuple(steps))
    past = Past.of(trajectory, len(steps), newest=True)
    worths = [StepWorth(score, score) for score in scores]
    found = whole_or_gone(past, worths, held=dict.fromkeys(floor, "held")).decide(budget)
    assert [d.score for d in found] == list(scores)
    assert {d.number for d in found if d.outcome == "floor"} == set(floor)
    return {d.number for d in found if d.outcome != "elided"}


def test_a_small_step_takes_the_room_a_better_one_is_too_big_for() -> None:
    assert kept(make_steps(50, 10, 5), [0.9, 0.5, 0.1], floor={3}, budget=20) == {2, 3}


def test_of_two_equal_scores_the_newer_step_stays() -> None:
    assert kept(make_steps(5, 5), [0.5, 0.5], budget=5) == {2}


@given(data=st.data(), budget=st.integers(0, 2_000))
def test_the_floor_is_always_kept_and_only_the_floor_may_overspend(
    data: st.DataObject, budget: int
) -> None:
    steps = make_steps(*data.draw(st.lists(st.integers(1, 300), min_size=1)))
    scores = data.draw(st.lists(st.floats(0, 1), min_size=len(steps), max_size=len(steps)))
    floor = data.draw(st.sets(st.integers(1, len(steps))))

    found = kept(steps, scores, floor=floor, budget=budget)

    assert floor <= found
    cost, least = (sum(steps[n - 1].tokens for n in chosen) for chosen in (found, floor))
    assert cost <= max(budget, least)


@given(data=st.data(), budget=st.integers(0, 2_000))
def test_no_step_that_still_fits_is_left_out(data: st.DataObject, budget: int) -> None:
    steps = make_steps(*data.draw(st.lists(st.integers(1, 300), min_size=1)))
    scores = data.draw(st.lists(st.floats(0, 1), min_size=len(steps), max_size=len(steps)))

    found = kept(steps, scores, budget=budget)

    cost = sum(steps[n - 1].tokens for n in found)
    assert all(cost + step.tokens > budget for step in steps if step.number not in found)


def test_a_step_that_cannot_be_removed_is_charged_for_its_calls() -> None:
    fixed = Step(number=1, action="", observation="", tokens=50, removable=False, action_tokens=20)
    other = Step(number=2, action="", observation="", tokens=30)

    assert kept([fixed, other], [0.1, 0.9], budget=49) == set()
    assert kept([fixed, other], [0.1, 0.9], budget=50) == {2}
    assert kept([fixed, other], [0.1, 0.9], budget=80) == {1, 2}
