from hypothesis import given
from hypothesis import strategies as st

from agora import Query, Step
from agora.core import Call

# Private: the paper's atoms, text by text.
from agora.scorers.atoms import Atom, act, atom, flatten, pair_texts


def make_step(action: str, observation: str, *calls: Call) -> Step:
    return Step(number=1, action=action, observation=observation, tokens=1, calls=calls)


def test_what_was_thought_is_left_out_and_lines_run_on() -> None:
    step = make_step(
        "Thought: I should find an apple to put in the fridge.\nAction: go to countertop 1",
        "On the countertop 1, you see a apple 1,\na bread 1, a knife 1, and a peppershaker 1.",
    )

    assert atom(step).text == (
        "ACTION go to countertop 1\n"
        "OBS On the countertop 1, you see a apple 1, a bread 1, a knife 1, and a peppershaker 1."
    )


def test_a_tool_call_reads_as_its_name_and_its_values() -> None:
    call = Call("get_flight", '{"number": "HAT136", "date": "2024-05-20"}')
    step = make_step("get_flight {}", '{"seats": [4, 7], "status": null}', call)

    assert atom(step) == Atom(
        "get_flight number=HAT136; date=2024-05-20", "seats=4; seats=7; status=null"
    )


def test_what_was_only_thought_is_not_done() -> None:
    assert act(make_step("Think: where is it?\ngo to desk 1", "")) == "go to desk 1"
    assert act(make_step("Look:\n```bash\nls -l\n```\nDone.", "")) == "ls -l"
    assert act(make_step("Thought: nothing else", "")) == "Thought: nothing else"
    assert act(make_step("Thought: a\nThought: b", "")) == "Thought: a\nThought: b"


def test_json_that_is_broken_or_deep_is_text() -> None:
    assert flatten("{broken") == "{broken"
    assert flatten("[" * 100_000) == "[" * 100_000
    assert flatten("[" * 100 + "1" + "]" * 100) == ""


def test_a_pair_is_the_current_observation_without_the_task_and_the_atom() -> None:
    pairs = pair_texts(Query("find it", "a key 7"), [make_step("look", "a box")])

    assert pairs == [("a key 7", "ACTION look\nOBS a box")]


@given(st.text(), st.text(), st.booleans())
def test_each_half_is_one_line_and_no_longer_than_asked(
    action: str, observation: str, called: bool
) -> None:
    calls = (Call("tool", action),) if called else ()

    made = atom(make_step(action, observation, *calls), characters=40)

    for half in (made.action, made.observation):
        assert len(half) <= 40
        assert len(half.splitlines()) <= 1


@given(st.text(), st.text())
def test_an_atom_is_made_of_the_step_alone(action: str, observation: str) -> None:
    step = make_step(action, observation)

    assert atom(step) == atom(make_step(action, observation))
