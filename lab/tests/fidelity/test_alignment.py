from hypothesis import given
from hypothesis import strategies as st

from agora_lab.fidelity.alignment import Shown, align, restore, shown

TEXTS = st.sampled_from(["", "a", "open the box", "x" * 40, "x" * 40 + " and more", "ünï 🦉 code"])
MESSAGES = st.builds(Shown, st.sampled_from(["user", "assistant", "tool"]), TEXTS | st.text())


@given(before=st.lists(MESSAGES, max_size=8), after=st.lists(MESSAGES, max_size=8))
def test_what_was_sent_comes_back_from_its_parts(before: list[Shown], after: list[Shown]) -> None:
    parts = align(before, after)

    assert restore(before, parts) == after
    places = [part if isinstance(part, int) else part[0] for part in parts]
    taken = [place for place in places if isinstance(place, int)]
    assert taken == sorted(set(taken))


@given(messages=st.lists(MESSAGES, max_size=8), keep=st.lists(st.booleans(), max_size=8))
def test_messages_that_stay_are_named_by_their_place(
    messages: list[Shown], keep: list[bool]
) -> None:
    kept = [place for place, stays in zip(range(len(messages)), keep, strict=False) if stays]
    parts = align(messages, [messages[place] for place in kept])

    assert all(isinstance(part, int) for part in parts)


STEP = [Shown("assistant", "→ get {}"), Shown("tool", "a long result " * 9)]
OPENING = [Shown("system", "Be brief."), Shown("user", "Find it.")]


def test_a_marker_behind_a_message_is_a_change_of_that_message() -> None:
    marked = Shown("user", "Find it.\n\n[step 1 elided]")

    assert align([*OPENING, *STEP], [OPENING[0], marked]) == [0, [1, 8, "\n\n[step 1 elided]", 0]]


def test_a_result_that_was_masked_is_a_change_of_that_result() -> None:
    masked = Shown("tool", "[removed]")

    parts = align([*OPENING, *STEP, *STEP], [*OPENING, STEP[0], masked, *STEP])

    assert parts[:3] == [0, 1, 2]
    assert isinstance(parts[3], list)
    assert parts[3][0] == 3
    assert parts[4:] == [4, 5]


def test_a_marker_of_its_own_is_new() -> None:
    note = Shown("user", "[steps elided]")

    assert align([*OPENING, *STEP], [*OPENING, note]) == [0, 1, ["user", "[steps elided]"]]


def test_calls_and_parts_are_written_out() -> None:
    call = {"function": {"name": "get", "arguments": '{"id": 1}'}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}

    assert shown(said) == Shown("assistant", '→ get {"id": 1}')
    assert shown({"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}).text == "a\nb"
    assert shown({"role": "user", "content": [{"type": "image"}]}).text == '{"type": "image"}'
    values = {"function": {"name": "get", "arguments": {"id": "é"}}}
    assert shown({"role": "assistant", "tool_calls": [values]}).text == '→ get {"id": "é"}'
