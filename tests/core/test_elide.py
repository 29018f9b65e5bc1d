from hypothesis import given
from hypothesis import strategies as st

from agora.core.elide import Elided, FormMarkers, PaperMarkers, SkeletonMarkers, skeletons
from agora.core.tokens import Characters, EstimatedTokens
from agora.core.trajectory import Call, Step


def make_step(number: int, observation: str, *calls: tuple[str, str], action: str = "") -> Step:
    return Step(
        number=number,
        action=action,
        observation=observation,
        tokens=100,
        calls=tuple(Call(*call) for call in calls),
    )


def lines_of(*steps: Step, present: tuple[str, ...] = (), room: int = 10_000) -> dict[int, str]:
    elided = [Elided(step, 0.5) for step in steps]
    return dict(skeletons(elided, present=present, room=room, counter=Characters()))


def test_a_line_says_what_was_done_and_what_it_brought() -> None:
    step = make_step(3, '{"flight": "HAT136"}', ("get_reservation", '{"id": "EHGLP3"}'))

    assert lines_of(step) == {3: "get_reservation EHGLP3 -> HAT136"}


def test_what_stands_elsewhere_in_the_prompt_is_not_listed_again() -> None:
    first = make_step(1, "HAT136 HAT039", ("search", "{}"))
    second = make_step(2, "HAT136 HAT040 EHGLP3", ("search", "{}"))

    assert lines_of(first, second, present=("the user has EHGLP3",)) == {
        1: "search -> HAT136 HAT039",
        2: "search -> HAT040",
    }


def test_a_step_that_brought_nothing_still_says_what_was_done() -> None:
    assert lines_of(make_step(4, "nothing here", ("look", "{}"))) == {4: "look"}


def test_a_step_of_which_nothing_can_be_named_gets_no_line() -> None:
    assert lines_of(make_step(4, "nothing here", action="look around")) == {}


def test_with_little_room_the_line_of_the_better_step_comes_first() -> None:
    worse = Elided(make_step(1, "AAA111", ("look", "{}")), 0.1)
    better = Elided(make_step(2, "BBB222", ("look", "{}")), 0.9)

    lines = skeletons([worse, better], present=(), room=15, counter=Characters())

    assert lines == {2: "look -> BBB222"}


def test_without_room_there_are_no_lines() -> None:
    assert lines_of(make_step(1, "AAA111", ("look", "{}")), room=0) == {}


@given(
    st.lists(st.tuples(st.text(max_size=60), st.text(max_size=20)), max_size=6),
    st.integers(0, 60),
)
def test_every_name_in_a_line_stands_in_its_step(texts: list[tuple[str, str]], room: int) -> None:
    steps = [
        make_step(number + 1, observation, ("tool", arguments))
        for number, (observation, arguments) in enumerate(texts)
    ]

    elided = [Elided(step, 0.5) for step in steps]
    lines = skeletons(elided, present=(), room=room, counter=EstimatedTokens())

    for number, line in lines.items():
        head, _, brought = line.partition(" -> ")
        step = steps[number - 1]
        assert all(word in step.observation for word in brought.split(" "))
        assert all(word in f"tool {step.calls[0].arguments}" for word in head.split(" "))


def test_of_a_very_long_observation_both_ends_are_read() -> None:
    step = make_step(1, f"AAA111 {'x ' * 40_000}MMM555 {'x ' * 40_000}ZZZ999", ("look", "{}"))

    assert lines_of(step) == {1: "look -> AAA111 ZZZ999"}


def test_a_marker_names_the_run_and_lists_its_lines() -> None:
    assert SkeletonMarkers().run([(3, "a -> b"), (4, ""), (5, "c")]) == (
        "[steps 3-5 elided]\n3 a -> b\n5 c"
    )
    assert SkeletonMarkers().run([(3, "")]) == "[step 3 elided]"


def test_a_masked_result_keeps_only_what_the_step_brought() -> None:
    assert SkeletonMarkers().mask(3, "get EHGLP3 -> HAT136") == "[step 3 elided] HAT136"
    assert SkeletonMarkers().mask(3, "get EHGLP3") == "[step 3 elided]"


def test_markers_mention_recall_only_when_the_tool_is_offered() -> None:
    assert "agora_recall" in SkeletonMarkers(recall=True).run([(1, "")])
    assert "agora_recall" in SkeletonMarkers(recall=True).mask(1, "")
    assert "recall" not in SkeletonMarkers().run([(1, "")]) + SkeletonMarkers().mask(1, "")


def test_the_papers_markers_count_and_nothing_else() -> None:
    assert PaperMarkers().run([(3, "a"), (4, "b")]) == "[... 2 step(s) elided ...]"
    assert PaperMarkers().mask(3, "a") == "[... 1 step(s) elided ...]"


def test_a_note_says_how_it_went_and_what_it_brought_but_not_what_was_done() -> None:
    markers = FormMarkers(recall=True)

    assert markers.mask(3, "get id=A-1 -> ok seat=12A") == (
        "[step 3: result elided by the context compressor; "
        "agora_recall shows one by its number] ok seat=12A"
    )
    assert FormMarkers(signed=False).mask(3, "") == "[step 3: result elided]"
    assert FormMarkers(signed=False).mask(3, "look") == "[step 3: result elided]"


def test_a_marker_of_forms_says_who_wrote_it_once() -> None:
    lines = [(3, "look -> ok"), (4, "")]

    assert FormMarkers().run(lines) == (
        "[steps 3-4 elided by the context compressor]\n3 look -> ok"
    )
    assert FormMarkers(signed=False).run(lines) == "[steps 3-4 elided]\n3 look -> ok"
    assert (
        FormMarkers()
        .run(lines, signed=True)
        .startswith("[steps 3-4 elided by the context compressor, not the user]")
    )
