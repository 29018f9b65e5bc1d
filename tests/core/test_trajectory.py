import pytest

from agora import Query, Step, Trajectory
from agora.core import Utterance

# Private: what an edit counts, before anything is chosen.
from agora.core.past import Past


def make_trajectory(*utterances: Utterance) -> Trajectory:
    steps = tuple(
        Step(number=n, action=f"do {n}", observation=f"saw {n}", tokens=10) for n in (1, 2)
    )
    return Trajectory(
        task="the task",
        preamble="be good\nthe task",
        preamble_tokens=7,
        steps=steps,
        utterances=utterances,
        pending_tokens=3,
    )


def said(after: int, text: str, *, by_user: bool = True) -> Utterance:
    return Utterance(after=after, text=text, tokens=5, by_user=by_user)


def test_the_whole_prompt_is_what_is_fixed_and_every_step() -> None:
    trajectory = make_trajectory(said(1, "hurry"))

    assert trajectory.fixed_tokens == 15
    assert trajectory.tokens == 35


def test_steps_are_scored_against_the_observation_of_the_last_of_them() -> None:
    for newest in (True, False):
        assert make_trajectory().query(2, newest=newest) == Query("the task", "saw 2")
        assert make_trajectory().query(1, newest=newest) == Query("the task", "saw 1")
        assert make_trajectory().query(0, newest=newest) == Query("the task", "the task")


def test_the_newest_thing_to_act_on_is_what_the_user_said_last() -> None:
    spoken = make_trajectory(said(1, "hurry"), said(2, "well", by_user=False), said(2, "now?"))

    assert spoken.query(2, newest=True).observation == "now?"
    assert spoken.query(1, newest=True).observation == "hurry"
    assert spoken.query(2, newest=False).observation == "saw 2"
    answered = make_trajectory(said(2, "well", by_user=False))
    assert answered.query(2, newest=True).observation == "saw 2"


def test_what_was_said_before_a_step_is_known_by_its_number() -> None:
    spoken = make_trajectory(said(0, "first"), said(1, "second"), said(2, "third"))

    assert [u.text for u in spoken.said_before(2)] == ["first", "second"]


@pytest.mark.parametrize(("bound", "tokens", "of_action"), [(True, 6, 1), (False, 10, 5)])
def test_an_edit_counts_steps_without_thinking_only_where_it_takes_it_out(
    bound: bool, tokens: int, of_action: int
) -> None:
    step = Step(
        number=1, action="go", observation="", tokens=10, action_tokens=5, thinking_tokens=4
    )
    trajectory = Trajectory(task="t", preamble="t", preamble_tokens=1, steps=(step,), bound=bound)

    [seen] = Past.of(trajectory, 1, newest=False).steps
    assert (seen.tokens, seen.action_tokens) == (tokens, of_action)
