from hypothesis import given
from hypothesis import strategies as st

from agora.core.trajectory import Anchor, Call, Step
from agora.scorers.atoms import Atom, act, anchor_text, atom, flatten


def make_step(action: str, observation: str, *calls: Call) -> Step:
    return Step(number=1, action=action, observation=observation, tokens=1, calls=calls)


def test_a_household_step_reads_as_in_the_paper() -> None:
    step = make_step(
        "Thought: I should find an apple to put in the fridge.\nAction: go to countertop 1",
        "On the countertop 1, you see a apple 1,\na bread 1, a knife 1, and a peppershaker 1.",
    )

    assert atom(step).text == (
        "ACTION go to countertop 1\nOBS countertop 1: apple 1, bread 1, knife 1, peppershaker 1"
    )


def test_a_purchase_reads_as_in_the_paper() -> None:
    step = make_step(
        "click[Buy Now]",
        "Thank you for shopping with us! [SEP] Your code: [SEP]\nNone [SEP] Purchased [SEP] asin "
        '[SEP] B00O30JLDK [SEP] options [SEP] {"color": "country", "size": "xx-large"}',
    )

    assert atom(step).text == (
        "ACTION click[Buy Now]\nOBS purchased asin=B00O30JLDK; color=country; size=xx-large"
    )


def test_a_measurement_reads_as_in_the_paper() -> None:
    step = make_step(
        "use thermometer in inventory on metal block",
        "The thermometer reads 22 degrees Celsius.\nThe block is at room temperature.",
    )

    assert atom(step).text == (
        "ACTION use thermometer on metal block\n"
        "OBS temperature(metal block) = 22C; state = room_temperature"
    )


def test_a_tool_call_reads_as_its_name_and_its_values() -> None:
    call = Call("get_flight", '{"number": "HAT136", "date": "2024-05-20"}')
    step = make_step("get_flight {}", '{"seats": [4, 7], "status": null}', call)

    assert atom(step) == Atom(
        "get_flight number=HAT136; date=2024-05-20", "seats=4; seats=7; status=null"
    )


def test_a_page_of_a_shop_without_a_purchase_is_a_list() -> None:
    seen = atom(make_step("search[shoes]", "Page 1 [SEP] B00O30JLDK [SEP] $10.52"))

    assert seen.observation == "Page 1; B00O30JLDK; $10.52"


def test_a_reading_of_nothing_in_particular_names_no_thing() -> None:
    assert atom(make_step("wait", "Thermometer reads 5 degrees Celsius")).observation == (
        "temperature = 5C"
    )


def test_purchases_without_options_have_none() -> None:
    seen = atom(make_step("buy", "Purchased [SEP] asin [SEP] B0 [SEP] options [SEP] None"))

    assert seen.observation == "purchased asin=B0"


def test_what_was_only_thought_is_not_done() -> None:
    assert act(make_step("Think: where is it?\ngo to desk 1", "")) == "go to desk 1"
    assert act(make_step("Look:\n```bash\nls -l\n```\nDone.", "")) == "ls -l"
    assert act(make_step("Thought: nothing else", "")) == "Thought: nothing else"
    assert act(make_step("Thought: a\nThought: b", "")) == "Thought: a\nThought: b"


def test_json_that_is_broken_or_deep_is_text() -> None:
    assert flatten("{broken") == "{broken"
    assert flatten("[" * 100_000) == "[" * 100_000
    assert flatten("[" * 100 + "1" + "]" * 100) == ""


def test_the_anchor_says_what_is_now_and_then_the_task() -> None:
    assert anchor_text(Anchor("find it", "a key 7")) == "OBS a key 7\nTASK find it"
    assert anchor_text(Anchor("find it", "find it")) == "OBS find it"


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
