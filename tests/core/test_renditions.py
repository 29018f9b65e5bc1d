import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.adapters import format_named, make_request, parse
from agora.core.past import Past
from agora.core.renditions.draft import Forms
from agora.core.renditions.gone import gone
from agora.core.renditions.markers import FormMarkers, Markers
from agora.core.renditions.rendition import Place, Rendition
from agora.core.selection.plan import plan
from agora.core.tokens import Characters
from agora.core.trajectory import Call, Step, Trajectory
from agora.core.worth import StepWorth

CALL = {"name": "look", "arguments": "{}"}


def line(number: int, done: str, came: str = "") -> Rendition:
    return Rendition(number, "line", (Place(done, came),), 0, 0.0)


def test_a_marker_names_the_run_and_lists_its_lines() -> None:
    steps = [line(3, "a", "b"), gone(4), line(5, "c")]

    assert FormMarkers().run(steps) == "[steps 3-5 elided]\n3 a -> b\n5 c"
    assert FormMarkers().run([gone(3)]) == "[step 3 elided]"


def test_markers_mention_recall_only_when_the_tool_is_offered() -> None:
    offered, markers = FormMarkers(recall=True), FormMarkers()

    assert "agora_recall" in offered.run([gone(1)])
    assert "agora_recall" in offered.note(1, "")
    assert "recall" not in markers.run([gone(1)]) + markers.note(1, "")


@pytest.mark.parametrize(
    ("markers", "head"),
    [
        (FormMarkers(code="a7f3"), "[step 3: result elided #a7f3]"),
        (FormMarkers(), "[step 3: result elided]"),
    ],
)
def test_a_note_says_what_it_is_given_behind_its_head(markers: Markers, head: str) -> None:
    assert markers.note(3, "ok seat=12A") == f"{head} ok seat=12A"
    assert markers.note(3, "") == head


def test_a_marker_of_forms_says_who_wrote_it_once() -> None:
    lines = [line(3, "look", "ok"), gone(4)]

    first, later = FormMarkers(code="a7f3", first=3), FormMarkers(code="a7f3", first=1)
    by = "[steps 3-4 elided by the context compressor"
    signs = "; it signs all it writes #a7f3"

    def head(markers: Markers, *, signed: bool = False) -> str:
        said, line = markers.run(lines, signed=signed).split("\n")
        assert line == "3 look -> ok"
        return said

    assert head(first) == f"{by}{signs}]"
    assert head(first, signed=True) == f"{by}, not the user{signs}]"
    assert head(later) == "[steps 3-4 elided #a7f3]"
    assert head(later, signed=True) == f"{by}, not the user #a7f3]"
    assert head(FormMarkers(first=3)) == "[steps 3-4 elided]"
    assert head(FormMarkers(first=3), signed=True) == f"{by}, not the user]"


def test_a_note_has_what_came_back_and_a_line_what_was_done_too() -> None:
    places = (Place("get id=A-1", "ok seat=12A"), Place("look", ""), Place("", ""))

    assert Rendition(3, "line", places, 0, 0.0).text == "get id=A-1 -> ok seat=12A\nlook\n+1 calls"
    kept = tuple(Place(None, place.result) for place in places)
    assert Rendition(3, "action", kept, 0, 0.0).text == "ok seat=12A"


def past_of(*steps: Step) -> Past:
    trajectory = Trajectory(task="go", preamble="go", preamble_tokens=2, steps=steps)
    return Past.of(trajectory, len(steps), newest=True)


def calling(number: int, *names: str, observation: str, removable: bool = True) -> Step:
    return Step(
        number=number,
        action="",
        observation=observation,
        tokens=400 + len(observation),
        calls=tuple(Call(name, '{"id": "A-100"}') for name in names),
        action_tokens=40,
        removable=removable,
    )


def renditions_of(step: Step, forms: Forms | None = None) -> list[Rendition]:
    found = plan(
        past_of(step, calling(2, "look", observation="")),
        [StepWorth(0.5, 0.5)] * 2,
        held={2: "current observation"},
        forms=forms or Forms(),
        markers=FormMarkers(),
        counter=Characters(),
    )
    return list(found.options[0])


@given(
    st.lists(st.sampled_from(["get_item", "book_item", "look"]), max_size=6),
    st.text(max_size=60) | st.sampled_from(['{"code": "CR-1306693"}', "KEY001 a/b.py"]),
    st.booleans(),
)
def test_what_is_counted_is_what_is_written(
    names: list[str], observation: str, removable: bool
) -> None:
    step = calling(1, *names, observation=observation, removable=removable)

    for one in renditions_of(step):
        if one.form == "line":
            assert one.tokens == len("".join(f"\n1 {said}" for said in one.lines))
        elif one.form == "action":
            assert one.tokens == 40 + 1 + len(FormMarkers().note(1, one.text))
        # A line has a place for each call, an action one for each result.
        assert one.form != "line" or len(one.places) == max(1, len(names))
        assert one.form != "action" or len(one.places) == 1
        assert one.in_place == (one.form in ("whole", "action"))


def test_each_call_has_a_note_of_its_own_and_more_results_get_bare_ones() -> None:
    calls = [{"id": i, "type": "function", "function": CALL} for i in "abc"]
    messages = [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": i, "content": f"result {i}"} for i in "abc"),
    ]
    parsed = parse(make_request(messages, format="openai"))
    kept = Rendition(1, "action", (Place(None, "ok one"), Place(None, "ok two")), 0, 0.0)

    rendered = format_named("openai").adapter.render(parsed, {1: kept}, FormMarkers())

    assert [message["content"] for message in rendered.messages[2:]] == [
        "[step 1: result elided] ok one",
        "[step 1: result elided] ok two",
        "[step 1: result elided]",
    ]
