import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.core.trajectory import Call, Step, Trajectory, Utterance
from agora_lab.label.worth import (
    Needed,
    WorthSettings,
    candidates,
    epochs,
    label_parts,
    uses,
)

CODE = "def find_key(box, lid, pen): return box.lid.open(pen)"


def make_trajectory(
    *texts: tuple[str, str], preamble: str = "", said: Sequence[Utterance] = ()
) -> Trajectory:
    steps = tuple(
        Step(number=n, action=action, observation=observation, tokens=9)
        for n, (action, observation) in enumerate(texts, start=1)
    )
    return Trajectory(
        task="", preamble=preamble, preamble_tokens=0, steps=steps, utterances=tuple(said)
    )


def at(trajectory: Trajectory, epoch: int, number: int, **settings: object) -> Needed:
    chosen = WorthSettings(**settings)  # type: ignore[arg-type]
    return next(
        one
        for one in label_parts(trajectory, chosen)
        if (one.epoch, one.candidate) == (epoch, number)
    )


IDLE = ("wait", "nothing")


def test_a_name_that_only_an_old_observation_has_makes_it_needed_until_it_is_used() -> None:
    past = make_trajectory(("open box", "key_77"), IDLE, IDLE, IDLE, ("take key_77", ""))

    assert at(past, 3, 1).observation == pytest.approx(0.95)
    assert at(past, 4, 1).observation == 1.0
    assert at(past, 4, 1).action == 0.0
    assert at(past, 4, 1).named == 1.0


def test_what_is_used_later_than_an_edit_lasts_is_not_needed() -> None:
    past = make_trajectory(("open", "key_77"), *[IDLE] * 9, ("take key_77", ""))

    assert at(past, 3, 1, calls=5).observation == 0.0
    assert at(past, 7, 1, calls=5).observation > 0.0


def test_after_its_first_use_a_name_stands_in_a_newer_step() -> None:
    past = make_trajectory(("open", "key_77"), IDLE, IDLE, ("take key_77", ""), IDLE, IDLE, IDLE)
    again = make_trajectory(
        ("open", "key_77"), IDLE, IDLE, ("take key_77", ""), IDLE, IDLE, ("drop key_77", "")
    )

    assert at(past, 6, 1).observation == 0.0
    assert at(again, 6, 1).observation == 0.0
    assert at(again, 6, 4).action == 0.0


@pytest.mark.parametrize(
    ("preamble", "said"),
    [
        ("your key is key_77", ()),
        ("", (Utterance(after=2, text="key_77?", tokens=1, by_user=True),)),
    ],
)
def test_what_the_preamble_or_the_user_says_no_part_is_needed_for(
    preamble: str, said: Sequence[Utterance]
) -> None:
    past = make_trajectory(
        ("open", "key_77"), IDLE, IDLE, ("take key_77", ""), preamble=preamble, said=said
    )

    assert at(past, 3, 1).observation == 0.0


def test_of_two_parts_with_the_same_name_none_is_needed() -> None:
    past = make_trajectory(
        ("open", "key_77"), ("open", f"key_77 {'and ' * 99}"), IDLE, IDLE, ("take key_77", "")
    )

    assert not any(at(past, 4, number).observation for number in (1, 2))


def test_eight_copied_tokens_make_a_part_needed_and_seven_do_not() -> None:
    copied = make_trajectory(("show", CODE), IDLE, IDLE, (f"write {CODE}", ""))
    shorter = make_trajectory(("show", "one two three"), IDLE, IDLE, ("say one two three", ""))

    assert at(copied, 3, 1).observation == 1.0
    assert at(copied, 3, 1).named < 1.0
    assert at(shorter, 3, 1).observation == 0.0


def test_rulers_are_no_copies() -> None:
    past = make_trajectory(("show", "- " * 40), IDLE, IDLE, ("- " * 40, ""))

    assert not [use for use in uses(past) if use.kind == "copy"]


def test_arguments_in_json_are_compared_as_the_text_that_they_stand_for() -> None:
    steps = [
        Step(number=1, action="read", observation=f"{CODE}\n    pass", tokens=9),
        *(Step(number=n, action="wait", observation="", tokens=9) for n in (2, 3)),
        Step(
            number=4,
            action="write",
            observation="",
            tokens=9,
            calls=(Call("write", '{"text": "' + CODE.replace("return", "\\n return") + '"}'),),
        ),
    ]
    past = Trajectory(task="", preamble="", preamble_tokens=0, steps=tuple(steps))

    assert at(past, 3, 1).observation == 1.0


def test_asking_again_counts_half_and_for_the_newest_that_was_asked() -> None:
    past = make_trajectory(
        ("cat src/a.py", "old"), ("cat src/a.py", "new"), IDLE, IDLE, ("sed -i 1d src/a.py", "")
    )

    assert at(past, 4, 1).observation == 0.0
    assert at(past, 4, 2).observation == 0.5
    assert at(past, 4, 2).named == 0.0


def test_edits_are_spread_over_a_long_trajectory() -> None:
    past = make_trajectory(*[IDLE] * 60)

    found = epochs(past, WorthSettings(anchors=5))

    assert len(found) == 5
    assert found == sorted(found)
    assert min(b - a for a, b in itertools.pairwise(found)) >= 10
    assert list(epochs(past, WorthSettings())) == list(range(3, 60))


texts = st.text(max_size=40) | st.sampled_from(
    [CODE, "key_77", "cat src/a.py", "sed -i 1d src/a.py", "```\ncat src/a.py\n```", ""]
)


@given(st.lists(st.tuples(texts, texts), max_size=14))
def test_every_step_outside_the_floor_has_labels_between_0_and_1(
    history: list[tuple[str, str]],
) -> None:
    past = make_trajectory(*history)

    found = list(label_parts(past))

    assert len(found) == sum(len(candidates(past, e)) for e in epochs(past, WorthSettings()))
    for one in found:
        assert one.candidate <= one.epoch - 2
        for label in (one.action, one.observation, one.named):
            assert 0.0 <= label <= 1.0
        assert one.observation or not one.named
