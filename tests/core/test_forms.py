import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.core.actions import NO_TOOLS, Tools
from agora.core.past import Past
from agora.core.renditions.draft import Forms
from agora.core.renditions.markers import FormMarkers
from agora.core.selection.plan import Plan, plan
from agora.core.tokens import Characters, EstimatedTokens
from agora.core.trajectory import Call, Step, Trajectory, Utterance
from agora.core.worth import StepWorth


def make_step(
    number: int, tool: str = "get_item", *, size: int = 400, mask: bool = False, **changed: object
) -> Step:
    """Return a step that is not the first: that one keeps its calls, for markers to stand in."""
    observation = json.dumps({"item_id": f"A-{number}00", "text": "x" * size})
    step = {
        "number": number + 1,
        "action": "",
        "observation": observation,
        "tokens": len(observation) + 40,
        "calls": (Call(tool, json.dumps({"n": f"N-{number}00", "why": "so that you see it"})),),
        "action_tokens": 40,
        "removable": not mask,
        **changed,
    }
    return Step(**step)  # type: ignore[arg-type]


def make_past(*steps: Step, said: Sequence[Utterance] = ()) -> Past:
    trajectory = Trajectory(
        task="go", preamble="go", preamble_tokens=2, steps=steps, utterances=tuple(said)
    )
    return Past.of(trajectory, len(steps), newest=True)


def planned(
    past: Past,
    worths: Sequence[StepWorth] = (),
    forms: Forms | None = None,
    tools: Tools = NO_TOOLS,
) -> Plan:
    newest = past.steps[-1].number
    return plan(
        past,
        worths or [StepWorth(0.5, 0.5)] * len(past.steps),
        held={newest: "current observation"},
        forms=forms or Forms(),
        tools=tools,
        markers=FormMarkers(code="a7f3"),
        counter=Characters(),
    )


def forms_of(found: Plan, budget: int) -> list[str]:
    return [decision.form for decision in found.decide(budget)]


def test_without_room_only_what_changed_something_is_named() -> None:
    past = make_past(make_step(1), make_step(2, "book_item"), make_step(3))

    decisions = planned(past).decide(0)

    assert [d.form for d in decisions] == ["gone", "line", "whole"]
    assert decisions[1].text == 'book_item n=N-200 why="so that you see it"'
    assert [d.outcome for d in decisions] == ["elided", "elided", "floor"]


def test_what_was_read_after_a_user_s_words_may_go_as_any_other() -> None:
    said = [Utterance(after=3, text="go on", tokens=5, by_user=True)]
    past = make_past(*(make_step(n) for n in range(6)), said=said)

    forms = forms_of(planned(past), 0)

    assert forms == ["action", "gone", "gone", "gone", "gone", "whole"]


def test_what_was_first_changed_after_a_user_s_words_keeps_its_calls() -> None:
    said = [Utterance(after=2, text="book it", tokens=5, by_user=True)]
    tools = ["get_item", "book_item", "get_item", "book_item", "book_item", "get_item"]
    past = make_past(*(make_step(n, tool) for n, tool in enumerate(tools)), said=said)

    forms = forms_of(planned(past), 0)

    assert forms == ["action", "line", "gone", "action", "line", "whole"]


def test_the_first_step_with_calls_keeps_them_after_one_by_text() -> None:
    past = make_past(make_step(0, calls=(), action="look"), *(make_step(n) for n in (1, 2, 3)))

    assert forms_of(planned(past), 0)[1:3] == ["action", "gone"]


def test_tools_that_change_something_can_be_named() -> None:
    past = make_past(make_step(1, "get_frobs"), make_step(2))

    assert forms_of(planned(past), 0)[0] == "gone"
    assert forms_of(planned(past, tools=Tools(changing=("get_frobs",))), 0)[0] == "line"


def test_a_tool_that_nothing_is_known_of_changes_something_unless_it_is_named_as_reading() -> None:
    past = make_past(make_step(1, "frobnicate"), make_step(2))

    assert forms_of(planned(past), 0)[0] == "line"
    assert forms_of(planned(past, tools=Tools(reading=("frobnicate",))), 0)[0] == "gone"


def test_every_step_is_named_before_any_room_goes_to_what_one_brought() -> None:
    past = make_past(*(make_step(n) for n in range(1, 9)))
    found = planned(past, [StepWorth(0.01, 0.9)] * 8)
    lines = sum(options[1].tokens for options in found.options[:-1])
    room = past.floor_tokens({9}) + found.marker_tokens + lines

    assert forms_of(found, room) == ["line"] * 7 + ["whole"]
    assert forms_of(found, room - 1) == ["gone"] + ["line"] * 6 + ["whole"]


def test_what_is_worth_more_for_its_tokens_comes_first() -> None:
    past = make_past(*(make_step(n) for n in range(1, 5)))
    worths = [StepWorth(0.9, 0.0), StepWorth(0.0, 0.9), StepWorth(0.0, 0.0), StepWorth(0, 0)]
    room = past.floor_tokens({5}) + 700

    decisions = planned(past, worths).decide(room)

    assert decisions[1].form == "whole"
    assert decisions[1].reason == "worth its tokens"
    assert "item_id=A-200" not in decisions[0].text


def test_a_long_script_is_worth_more_than_a_result_of_its_size() -> None:
    script = Call("bash", json.dumps({"command": "cat > run.py <<EOF\n" + "x = 1\n" * 60 + "EOF"}))
    wrote = make_step(1, calls=(script,), observation="", tokens=460, action_tokens=440)
    read = make_step(2, size=400)
    newest = make_step(3)
    equal = [StepWorth(0.5, 0.0), StepWorth(0.0, 0.5, 0.0), StepWorth(0.5, 0.5)]
    room = newest.tokens + 700

    first, second, _ = forms_of(planned(make_past(wrote, read, newest), equal), room)

    assert first == "whole"
    assert second != "whole"


def test_with_all_the_room_everything_is_whole() -> None:
    past = make_past(*(make_step(n) for n in range(1, 6)))

    assert forms_of(planned(past), 100_000) == ["whole"] * 5


def test_a_small_step_stays_whole_where_anything_else_costs_more() -> None:
    small = make_step(1, "book_item", tokens=12, action_tokens=8)
    past = make_past(small, make_step(2))

    first = planned(past).decide(0)[0]

    assert (first.outcome, first.reason, first.form) == ("floor", "small", "whole")


def test_a_step_that_cannot_be_removed_keeps_its_action() -> None:
    past = make_past(make_step(1, mask=True), make_step(2))

    [first, _] = planned(past).decide(0)

    assert first.form == "action"
    assert first.reason == "no room for its result"


@pytest.mark.parametrize(
    ("forms", "seen"),
    [
        (Forms(), {"line", "action", "whole"}),
        (Forms(lines=False), {"gone", "action", "whole"}),
    ],
)
def test_only_the_forms_that_are_asked_for_are_used(forms: Forms, seen: set[str]) -> None:
    past = make_past(*(make_step(n) for n in range(1, 9)))
    found = planned(past, [StepWorth(0.9, 0.1)] * 8, forms)
    tried = range(past.fixed_tokens, past.tokens, 50)

    shown = {form for budget in tried for form in forms_of(found, budget)[:-1]}

    assert shown - {"gone"} == seen - {"gone"}


def test_without_lines_what_changed_something_keeps_its_action() -> None:
    past = make_past(make_step(1, "book_item"), make_step(2))

    assert forms_of(planned(past, forms=Forms(lines=False)), 0)[0] == "action"


def test_what_two_steps_tell_is_told_by_the_newer() -> None:
    twin = json.dumps({"item_id": "A-777", "text": "x" * 300})
    past = make_past(make_step(1, observation=twin), make_step(2, observation=twin), make_step(3))
    found = planned(past, [StepWorth(0.1, 0.9, 1.0)] * 3)

    told = [d.text for d in found.decide(past.floor_tokens({4}) + 200)]

    assert "A-777" in told[1]
    assert "A-777" not in told[0]


@pytest.mark.parametrize(
    ("calls", "by_user", "reaches"),
    [(True, False, True), (False, False, True), (False, True, False)],
)
def test_only_words_that_could_hold_a_marker_cut_a_run(
    calls: bool, by_user: bool, reaches: bool
) -> None:
    by_text: dict[str, Any] = {} if calls else {"calls": (), "action": "look up N-100"}
    steps = [make_step(n, **by_text) for n in range(1, 4)]
    said = [Utterance(after=2, text="go on", tokens=5, by_user=by_user)]
    room = make_past(*steps).floor_tokens({4})

    joined, cut = (planned(make_past(*steps, said=one)) for one in ((), said))
    lines = sum(options[1].tokens for options in joined.options[:-1])

    assert forms_of(joined, room + lines + joined.marker_tokens)[:2] == ["line", "line"]
    forms = forms_of(cut, 5 + room + lines + cut.marker_tokens)[:2]
    assert (forms == ["line", "line"]) is reaches


@given(
    st.lists(
        st.tuples(st.integers(0, 600), st.floats(0, 1), st.floats(0, 1), st.booleans()),
        min_size=2,
        max_size=8,
    ),
    st.integers(0, 4_000),
)
def test_only_what_has_no_shorter_form_may_overspend(
    drawn: list[tuple[int, float, float, bool]], budget: int
) -> None:
    steps = [
        make_step(n, "book_item" if write else "get_item", size=size)
        for n, (size, _, _, write) in enumerate(drawn, start=1)
    ]
    past = make_past(*steps)
    found = planned(past, [StepWorth(action, seen) for _, action, seen, _ in drawn])

    spent, least = (_cost(found, found.decide(room)) for room in (budget, 0))

    assert spent <= max(budget, least)


def _cost(found: Plan, decisions: Sequence[object]) -> int:
    """Return what all of it costs, counted apart from the filling."""
    total = found.past.fixed_tokens
    run = False
    for options, decision in zip(found.options, decisions, strict=True):
        form, text = decision.form, decision.text  # type: ignore[attr-defined]
        total += next(o.tokens for o in options if (o.form, o.text) == (form, text))
        removed = form in ("line", "gone")
        total += found.marker_tokens if removed and not run else 0
        run = removed
    return total


def test_the_counter_of_tokens_serves_as_well() -> None:
    past = make_past(*(make_step(n) for n in range(1, 5)))
    found = plan(
        past,
        [StepWorth(0.5, 0.5)] * 4,
        held={5: "recent"},
        forms=Forms(),
        markers=FormMarkers(),
        counter=EstimatedTokens(),
    )

    assert [d.form for d in found.decide(past.tokens)] == ["whole"] * 4


def test_a_thought_that_a_tool_noted_down_leaves_no_line() -> None:
    noted = Call("think", json.dumps({"thought": "The refund goes to the card that was charged."}))
    past = make_past(
        make_step(1, calls=(noted,), observation="", tokens=70), make_step(2), make_step(3)
    )

    seen = {tuple(forms_of(planned(past), budget)) for budget in range(0, 1_200, 20)}
    assert ("gone", "line", "whole") in seen
    assert {forms[0] for forms in seen} == {"gone", "whole"}


def test_what_the_line_of_an_action_says_is_not_told_of_another_step() -> None:
    order = {"order_id": "W-5000", "user_id": "ann_lee_77", "card_id": "card_1234", "x": "x" * 300}
    asked = Call("get_user", json.dumps({"user_id": "ann_lee_77"}))
    past = make_past(
        make_step(1, calls=(asked,), action_tokens=0),
        make_step(2, observation=json.dumps(order), action_tokens=0),
        make_step(3),
    )
    found = planned(past, [StepWorth(0.1, 0.9, 1.0)] * 3)

    told = [d.text for d in found.decide(past.floor_tokens({4}) + 250)]

    assert "ann_lee_77" in told[0]
    assert "card_1234" in told[1]
    assert "ann_lee_77" not in told[1]


def test_a_code_is_told_by_its_result_though_a_later_action_names_it() -> None:
    booked = json.dumps({"booking_code": "CR-1306693", "text": "x" * 300})
    looked = Call("get_booking", json.dumps({"code": "CR-1306693"}))
    past = make_past(
        make_step(1, "book_item", observation=booked), make_step(2, calls=(looked,)), make_step(3)
    )

    found = planned(past)

    told = [d.text for d in found.decide(past.floor_tokens({4}) + 200)]

    assert "code=CR-1306693" in told[0]


def test_where_a_thing_stood_when_it_was_used_is_told_by_the_newest_step_alone() -> None:
    shown = "In the cupboard is: a metal pot, a tin cup." + " It is quiet." * 40
    taken = make_step(2, calls=(Call("act", '{"command": "take metal pot"}'),))
    again = make_step(4, calls=(Call("act", '{"command": "take metal pot"}'),))
    past = make_past(
        make_step(1, observation=shown), taken, make_step(3, observation=shown), again, make_step(5)
    )

    told = [d.text for d in planned(past).decide(past.floor_tokens({6}) + 600)]

    assert "metal pot" in told[2]
    assert "metal pot" not in told[0]


def test_where_there_is_room_a_line_names_all_of_a_booking() -> None:
    given = {f"flight_{n}": f"HAT10{n}" for n in range(1, 8)}
    past = make_past(
        make_step(1, calls=(Call("book", json.dumps(given)),), size=4_000, action_tokens=900),
        make_step(2),
    )

    lines = [planned(past).decide(budget)[0].text for budget in range(500, 900, 20)]
    assert "HAT104" in lines[0]
    assert "HAT105" not in lines[0]
    assert "flight_7=HAT107" in lines[-1]


def cancelled(number: int, code: str, **more: object) -> Step:
    """Return a step that cancelled something and was told a code."""
    result = {"status": "cancelled", "text": "x" * 400, "refund": {"code": code, **more}}
    return make_step(number, "cancel_order", observation=json.dumps(result))


def test_a_code_that_only_its_own_result_tells_comes_before_any_other_line() -> None:
    past = make_past(make_step(1), cancelled(2, "CR-1306693"), *map(make_step, (3, 4, 5)))
    found = planned(past, [StepWorth(0.9, 0.9)] + [StepWorth(0, 0)] + [StepWorth(0.9, 0.9)] * 3)
    [bare, coded, *_] = found.options[1]
    least = past.floor_tokens({6}) + found.marker_tokens + bare.tokens

    decisions = found.decide(least + coded.tokens - bare.tokens)
    assert decisions[1].text == (
        'cancel_order n=N-200 why="so that you see it" -> refund.code=CR-1306693; +1'
    )
    assert [d.form for d in decisions] == ["gone", "line", "gone", "gone", "whole"]
    assert found.decide(least + coded.tokens - bare.tokens - 1)[1].text == (
        'cancel_order n=N-200 why="so that you see it"'
    )


def test_wherever_there_is_room_for_a_code_it_is_told() -> None:
    past = make_past(make_step(1), cancelled(2, "CR-1306693"), *map(make_step, (3, 4, 5)))
    found = planned(past, [StepWorth(0.9, 0.9)] + [StepWorth(0.9, 0)] + [StepWorth(0.9, 0.9)] * 3)
    least = past.floor_tokens({6}) + found.marker_tokens + found.options[1][1].tokens

    for budget in range(least, past.tokens + 200, 25):
        told = found.decide(budget)[1]
        assert told.form == "whole" or "code=CR-1306693" in told.text


@pytest.mark.parametrize(
    "other",
    [
        make_step(1, observation=json.dumps({"code": "CR-1306693", "text": "x" * 400})),
        cancelled(1, "CR-1306693"),
    ],
)
def test_a_code_that_another_step_shows_too_waits_its_turn(other: Step) -> None:
    past = make_past(other, cancelled(2, "CR-1306693"), make_step(3))
    found = planned(past)

    assert 1 not in found.first


def test_a_code_that_was_asked_for_or_said_or_came_with_an_error_waits_its_turn() -> None:
    given = Call("cancel_order", json.dumps({"of": {"code": "CR-1306693"}}))
    failed = json.dumps({"error": "too late", "code": "CR-1306693", "text": "x" * 400})
    for step, task in (
        (make_step(1, observation=cancelled(1, "CR-1306693").observation, calls=(given,)), "go"),
        (make_step(1, "cancel_order", observation=failed), "go"),
        (cancelled(1, "CR-1306693"), "go on with CR-1306693"),
        (make_step(1, observation=cancelled(1, "CR-1306693").observation), "go"),
        (cancelled(1, "N-100"), "go"),
    ):
        steps = (step, make_step(2), make_step(3))
        trajectory = Trajectory(task=task, preamble=task, preamble_tokens=2, steps=steps)
        found = planned(Past.of(trajectory, 3, newest=True))

        assert found.first[0] == 1


def test_of_many_codes_two_come_first() -> None:
    codes = {f"item_{n}_id": f"I-{n}000" for n in range(1, 9)}
    past = make_past(cancelled(1, "CR-1306693", **codes), make_step(2))
    found = planned(past)

    assert found.options[0][1].text == (
        'cancel_order n=N-100 why="so that you see it"'
        " -> refund.code=CR-1306693 refund.item_1_id=I-1000; +8"
    )


def test_where_a_thing_was_before_it_was_used_is_told_before_what_other_steps_brought() -> None:
    room = "This is the kitchen.\n" + "x" * 400 + "\nIn the cupboard is: a metal pot, a tin cup."
    steps = [
        make_step(1),
        make_step(2, observation=room, calls=(Call("go", '{"to": "kitchen"}'),)),
        make_step(3, calls=(Call("act", '{"command": "pick up metal pot"}'),)),
        make_step(4),
    ]

    found = planned(make_past(*steps))

    decided = [found.decide(budget) for budget in range(0, 2_000, 20)]
    others = [one for one in decided if "A-100" in one[0].text or one[0].form == "whole"]
    assert others
    for one in others:
        assert one[1].form == "whole" or 'cupboard|"metal pot"' in one[1].text


def test_what_the_quoted_reason_of_a_failure_names_is_not_named_again() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "src/app/loader.py", line 4, in load\n'
        "ConfigError: no key db_host in settings\n"
    )
    past = make_past(
        make_step(1, "run_job", observation=trace + "x" * 400), *map(make_step, (2, 3))
    )

    texts = [planned(past).decide(budget)[0].text for budget in range(200, 1_600, 50)]
    told = [text for text in texts if "ConfigError" in text]
    assert told
    assert {text.count("ConfigError") for text in told} == {1}
    assert any("src/app/loader.py" in text for text in told)
