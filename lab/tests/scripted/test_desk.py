"""The reader for the desk: whole conversations, and prompts that are made up here."""

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_lab.agents.base import prompt_text
from agora_lab.agents.scripted import reader
from agora_lab.agents.scripted.desk import GIVEN_UP, READER
from agora_lab.envs.desk import WORLD, Desk
from agora_lab.envs.desk.script import Script
from agora_lab.episodes import Cell, Episode
from agora_lab.evaluate.play import Player
from agora_lab.methods import MethodSettings, method
from agora_lab.names import stands_in

SHORT = "validation-001"
RULES = {"role": "system", "content": "Today is 2026-05-04."}
CANCEL = "For Mei Mori (mei.mori12@example.com): please cancel the pending order with the Toaster."
ORDER = (
    "For Mei: please order one Heater, the cheapest available with color red. "
    "Pay with the credit from the first order you cancelled."
)
SHOWN = (
    '{"name": "Heater", "product_id": "1234567890", "variants": {'
    '"1111111111": {"item_id": "1111111111", "options": {"color": "red"}, '
    '"available": true, "price": 30.0}, '
    '"2222222222": {"item_id": "2222222222", "options": {"color": "red"}, '
    '"available": true, "price": 20.0}}}'
)


def told(*blocks: tuple[str, str]) -> str:
    messages = [RULES, *({"role": role, "content": text} for role, text in blocks)]
    return prompt_text(messages)


def ordering(first: str) -> str:
    """Return a prompt that ends when the heater was looked up for the second request."""
    return told(
        ("user", first),
        ("assistant", "That is done."),
        ("user", ORDER),
        ("assistant", 'get_product {"product_id": "1234567890"}'),
        ("tool", SHOWN),
    )


@cache
def played(task: str = SHORT) -> tuple[Episode, Script]:
    desk = Desk()
    player = Player(
        cell=Cell(environment="desk", backbone="reader", method="none"),
        world=WORLD,
        environment=desk,
        backbone=reader("desk"),
        method=method("none"),
    )
    episode, _ = player.play(task)
    desk.close()
    return episode, desk.script


@pytest.mark.parametrize("task", [SHORT, "validation-004", "train-000"])
def test_with_everything_sent_it_does_everything(task: str) -> None:
    episode, _ = played(task)

    assert episode.ended == "done"
    assert episode.reward == 1.0
    assert all(move.valid for move in episode.moves)
    assert episode.moves[-1].tokens_whole > 15_000


def test_what_it_does_depends_on_the_prompt_alone() -> None:
    episode, _ = played()
    prompts = [prompt_text(episode.conversation(at)) for at in range(len(episode.moves))]

    again = [READER.act(prompt) for prompt in reversed(prompts)]

    assert again[::-1] == [move.answer for move in episode.moves]


def test_a_code_is_taken_from_what_is_left_of_a_result() -> None:
    marked = (
        f"{CANCEL}\n\n[steps 1-3 elided. The context compressor wrote this.]\n"
        "1 find_customer email=mei.mori12@example.com -> ok customer_id=mei_mori_1234\n"
        "3 cancel_order order_id=#W7654321 -> ok status=cancelled; code=CR-1234567 amount=20.0; +9"
    )

    assert READER.act(ordering(marked)) == (
        'place_order {"customer_id": "mei_mori_1234", "item_id": "2222222222", '
        '"payment_id": "CR-1234567"}'
    )


def test_names_without_keys_are_told_by_their_shape() -> None:
    marked = (
        f"{CANCEL}\n\n[steps 1-2 elided]\n1 get_customer mei_mori_1234 -> paypal_7777777\n"
        "2 cancel_order #W7654321 -> CR-1234567"
    )

    assert "CR-1234567" in READER.act(ordering(marked))
    assert "mei_mori_1234" in READER.act(ordering(marked))


def test_the_code_of_a_credit_is_not_that_of_the_one_the_order_was_paid_with() -> None:
    cancelled = "3 cancel_order order_id=#W7654321 -> ok payment_id=CR-7777777 total=20.0"
    who = "2 get_customer customer_id=mei_mori_1234 -> ok"
    told = f"{CANCEL}\n\n[steps 1-3 elided by the context compressor]\n{who}\n{cancelled}"

    assert '"CR-1234567"' in READER.act(ordering(f"{told}; code=CR-1234567 credit.amount=20.0"))
    assert READER.act(ordering(told)) == GIVEN_UP


def test_what_stands_in_the_prompt_in_any_form_is_not_given_up() -> None:
    episode, script = played("validation-002")
    options = {"share": 0.25, "edits": "every_call"}
    forms = method("agora", MethodSettings(observations="none", options=options))
    asked = 0

    request = 0
    for at, move in enumerate(episode.moves):
        wish = script.wishes[request]
        request += not move.called
        name, _, arguments = move.action.partition(" ")
        if not wish.needs or not move.called or wish.deed != (name, json.loads(arguments)):
            continue
        sent = prompt_text(forms.shorten(episode.conversation(at)).messages)
        if all(stands_in(need.value, sent) for need in wish.needs):
            asked += 1
            answer = READER.act(sent)
            looks_up = answer.startswith(("get_", "find_", "list_", "search_"))
            assert looks_up or answer == move.answer

    assert asked > 10


def test_a_code_that_is_gone_is_not_made_up() -> None:
    assert READER.act(ordering(f"{CANCEL}\n\n[... 3 step(s) elided ...]")) == GIVEN_UP


def test_a_customer_that_is_gone_is_looked_up_again() -> None:
    marked = f"{CANCEL}\n\n[steps 1-2 elided]\n2 cancel_order #W7654321 -> CR-1234567"

    assert READER.act(ordering(marked)) == 'find_customer {"email": "mei.mori12@example.com"}'


def test_a_request_that_took_too_many_calls_is_given_up() -> None:
    lost = told(("user", f"{CANCEL}\n\n[... 16 step(s) elided ...]"))
    begun = told(("user", f"{CANCEL}\n\n[... 3 step(s) elided ...]"))

    assert READER.act(lost) == GIVEN_UP
    assert READER.act(begun) == 'find_customer {"email": "mei.mori12@example.com"}'


@given(st.text(max_size=300), st.booleans())
def test_to_any_text_there_is_an_answer(text: str, after: bool) -> None:
    prompt = f"{ordering(CANCEL)}\n\n[TOOL]\n{text}" if after else text

    assert READER.act(prompt)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("floor", {}),
        ("observation_mask", {}),
        ("observation_mask_matched", {}),
        ("sliding_window", {"share": 0.25}),
        ("commands_first", {"share": 0.25}),
        ("agora", {"share": 0.25, "edits": "every_call"}),
        ("random_step", {}),
    ],
)
def test_no_method_takes_away_what_the_customer_said(name: str, options: dict[str, Any]) -> None:
    episode, _ = played()
    messages = episode.conversation(60)
    scorer = "random" if name == "agora_paper" else None
    settings = MethodSettings(observations="none", options=options, scorer=scorer)

    sent = method(name, settings).shorten(messages).messages

    said = [one["content"] for one in messages if one["role"] == "user"]
    left = [one["content"] for one in sent if one["role"] == "user"]
    assert len(prompt_text(sent)) < len(prompt_text(messages))
    assert len(left) == len(said)
    assert all(new.startswith(old) for old, new in zip(said, left, strict=True))


def test_a_record_gives_back_the_calls_that_were_made() -> None:
    episode, _ = played()

    again = Episode.from_dict(json.loads(json.dumps(episode.to_dict())))

    assert again == episode
    roles = [message["role"] for message in again.conversation(len(again.moves))]
    assert roles.count("tool") == sum(move.called for move in episode.moves)
