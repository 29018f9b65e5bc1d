"""The desk: its database is drawn, so nothing has to be downloaded."""

import json
from functools import cache

import pytest

from agora_lab.envs import Outcome, world
from agora_lab.envs.desk import WORLD, Desk, canonical, extract
from agora_lab.envs.desk.script import Script, Wish
from agora_lab.envs.desk.tools import TOOLS

TASK = "train-000"


@cache
def script() -> Script:
    desk = Desk()
    desk.reset(TASK)
    desk.close()
    return desk.script


def deed(wish: Wish) -> str:
    assert wish.deed is not None
    return f"{wish.deed[0]} {json.dumps(wish.deed[1])}"


def play(desk: Desk, *, without: int = -1, more: dict[int, str] | None = None) -> Outcome:
    """Do what the script asks for, but one request, and something else during others."""
    desk.reset(TASK)
    for at, wish in enumerate(desk.script.wishes):
        if wish.deed is not None and at != without:
            assert not desk.step(deed(wish)).observation.startswith("Error")
        if more and at in more:
            assert not desk.step(more[at]).observation.startswith("Error")
        outcome = desk.step("Done.")
    return outcome


def harmless(found: Script) -> int:
    """Return a request on which no later one depends: the last that changes something."""
    return found.counted[-1]


def test_a_task_is_the_same_every_time_and_unlike_another() -> None:
    first, again, other = Desk(), Desk(), Desk()

    assert first.reset(TASK) == again.reset(TASK)
    assert first.script == again.script
    assert first.state() == again.state()
    assert other.reset("train-001") != again.reset(TASK)
    assert other.script != again.script


def test_there_are_three_hundred_and_forty_tasks_in_three_splits() -> None:
    splits = world("desk").splits()

    assert {name: len(tasks) for name, tasks in splits.items()} == {
        "train": 180,
        "validation": 60,
        "test": 100,
    }


def test_doing_what_is_asked_for_earns_everything() -> None:
    outcome = play(Desk())

    assert outcome.terminated
    assert outcome.reward == 1.0


def test_a_request_that_was_not_done_earns_nothing() -> None:
    count = len(script().counted)

    outcome = play(Desk(), without=harmless(script()))

    assert outcome.reward == pytest.approx((count - 1) / count)


def test_something_else_that_is_changed_costs_the_request_during_which_it_was() -> None:
    count = len(script().counted)
    first = next(
        wish.deed for wish in script().wishes if wish.deed and wish.deed[0] == "place_order"
    )
    extra = f"place_order {json.dumps(first[1])}"

    outcome = play(Desk(), more={script().counted[1]: extra})

    assert outcome.reward == pytest.approx((count - 1) / count)


def test_what_was_done_with_a_wrong_value_counts_for_nothing() -> None:
    at = next(
        n
        for n in reversed(script().counted)
        if "payment_id" in (script().wishes[n].deed or ("", {}))[1]
    )
    name, arguments = script().wishes[at].deed or ("", {})
    others = [(wish.deed or ("", {}))[1].get("payment_id", "") for wish in script().wishes]
    wrong = next(
        one for one in others if one and one != arguments["payment_id"] and one[:2] != "CR"
    )
    changed = f"{name} {json.dumps({**arguments, 'payment_id': wrong})}"

    right = play(Desk()).reward
    outcome = play(Desk(), without=at, more={at: changed})

    assert outcome.reward < right


def test_what_is_done_after_the_customer_was_told_does_not_count() -> None:
    desk = Desk()
    desk.reset(TASK)
    first = desk.script.counted[0]
    for _ in range(first + 1):
        desk.step("Done.")

    late = desk.step(deed(desk.script.wishes[first]))

    assert not late.observation.startswith("Error")
    assert desk.step("Done.").reward == 0.0


def test_the_reward_counts_only_what_the_customer_was_told() -> None:
    desk = Desk()
    desk.reset(TASK)
    for wish in desk.script.wishes[: desk.script.counted[0]]:
        assert wish.deed is None
        desk.step("Done.")

    assert desk.step(deed(desk.script.wishes[desk.script.counted[0]])).reward == 0.0
    assert desk.step("Done.").reward > 0.0


@pytest.mark.parametrize(
    ("action", "valid"),
    [
        ('get_order {"order_id": "#W0"}', True),
        ('get_order {"id": "#W0"}', True),
        ('place_order {"customer_id": "x", "item_id": "y", "payment_id": "z"}', True),
        ('cancel_order {"order_id": ["#W0"]}', False),
        ("get_order {no json}", False),
        ('burn_order {"order_id": "#W0"}', False),
    ],
)
def test_a_call_that_is_refused_says_why_and_changes_nothing(action: str, valid: bool) -> None:
    desk = Desk()
    desk.reset(TASK)
    before = desk.state()

    outcome = desk.step(action)

    assert outcome.observation.startswith("Error")
    assert outcome.valid is valid
    assert desk.state() == before
    assert desk.request == 0


def test_the_code_of_a_credit_is_told_once() -> None:
    desk = Desk()
    desk.reset(TASK)
    wish = next(one for one in desk.script.wishes if one.kind == "cancel")

    told = json.loads(desk.step(deed(wish)).observation)
    order = desk.step(f"get_order {json.dumps({'order_id': told['order_id']})}").observation
    customer = desk.step(f"get_customer {json.dumps({'customer_id': told['customer_id']})}")

    assert told["credit"]["code"].startswith("CR-")
    assert told["credit"]["code"] not in order + customer.observation


def test_what_a_request_needs_stands_in_no_word_of_the_customer() -> None:
    said = "\n".join(wish.text for wish in script().wishes)
    needs = [need for wish in script().wishes for need in wish.needs]

    assert needs
    assert not [need for need in needs if need.value in said]
    assert all(need.request < at for at, w in enumerate(script().wishes) for need in w.needs)


def test_the_first_line_that_is_a_call_is_the_action() -> None:
    call = 'get_order {"order_id": "#W1"}'

    assert extract(f"I will look.\n`{call}`\n") == call
    assert extract("That is done.\nWhat else?") == "That is done.\nWhat else?"
    assert canonical('f {"b":1, "a": 2}') == canonical('f {"a": 2,"b": 1}')


def test_the_instructions_name_every_tool() -> None:
    assert all(f"\n{name} {{" in WORLD.instructions for name in TOOLS)
