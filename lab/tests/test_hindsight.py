from hypothesis import given
from hypothesis import strategies as st

from agora.core.trajectory import Call, Step, Trajectory, Utterance
from agora_lab.label.hindsight import Need, hindsight, stands_in


def make(
    *steps: tuple[str, str], preamble: str = "", said: tuple[Utterance, ...] = ()
) -> Trajectory:
    return Trajectory(
        task="",
        preamble=preamble,
        preamble_tokens=0,
        steps=tuple(
            Step(number=n, action=action, observation=observation, tokens=1)
            for n, (action, observation) in enumerate(steps, start=1)
        ),
        utterances=said,
    )


def needed(trajectory: Trajectory) -> list[tuple[int, int]]:
    return [(need.anchor, need.candidate) for need in hindsight(trajectory) if need.label]


QUIET = (("wait", ""), ("wait", ""))


def test_the_step_that_alone_brought_a_name_was_needed() -> None:
    assert needed(make(("look", "key 7"), ("look", "pen 2"), *QUIET, ("take key 7", ""))) == [
        (5, 1)
    ]


def test_a_name_that_stands_in_the_floor_makes_no_step_needed() -> None:
    assert (
        needed(make(("look", "key 7"), ("wait", ""), ("look", "key 7"), ("take key 7", ""))) == []
    )


def test_a_name_of_the_preamble_makes_no_step_needed() -> None:
    assert needed(make(("look", "key 7"), *QUIET, ("take key 7", ""), preamble="the key 7")) == []


def test_a_name_that_was_said_before_makes_no_step_needed() -> None:
    steps = (("look", "key 7"), *QUIET, ("take key 7", ""))
    before = Utterance(after=2, text="Take the key 7.", tokens=1, by_user=True)
    later = Utterance(after=4, text="Take the key 7.", tokens=1, by_user=True)

    assert needed(make(*steps, said=(before,))) == []
    assert needed(make(*steps, said=(later,))) == [(4, 1)]


def test_what_two_steps_brought_makes_neither_needed() -> None:
    assert needed(make(("look", "key 7"), ("look", "key 7"), *QUIET, ("take key 7", ""))) == []


def test_what_the_agent_wrote_itself_was_not_brought() -> None:
    assert needed(make(("touch a/b.py", "done"), *QUIET, ("edit a/b.py", ""))) == []


def test_what_an_observation_echoes_was_not_brought() -> None:
    failed = ("open a/b.py", "there is no a/b.py")

    assert needed(make(failed, *QUIET, ("edit a/b.py", ""))) == []


def test_names_are_found_as_whole_words() -> None:
    assert stands_in("Johnson", "for Mei Johnson.")
    assert not stands_in("HAT12", "HAT129")
    assert not stands_in("id_1", "my_id_1")
    assert stands_in("/a/b", "cd /a/b")


def test_arguments_of_calls_are_what_an_action_uses() -> None:
    trajectory = make(("look", "MSJ4OA"), *QUIET, ("", ""))
    last = Step(
        number=4,
        action='get_reservation {"id": "MSJ4OA"}',
        observation="",
        tokens=1,
        calls=(Call("get_reservation", '{"id": "MSJ4OA"}'),),
    )
    trajectory = Trajectory(
        task="", preamble="", preamble_tokens=0, steps=(*trajectory.steps[:3], last)
    )

    assert list(hindsight(trajectory)) == [Need(4, 1, ("MSJ4OA",))]


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=8))
def test_each_past_step_outside_the_floor_is_labelled_once_per_action(
    steps: list[tuple[str, str]],
) -> None:
    pairs = [(need.anchor, need.candidate) for need in hindsight(make(*steps))]

    assert pairs == [(t, i) for t in range(1, len(steps) + 1) for i in range(1, t - 2)]
