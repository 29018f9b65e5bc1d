import json
from typing import Any

import pytest

from agora_lab.fidelity.questions import DISTRACTORS, Fact, ask, facts, normal, pools


def call(name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}


def result(value: Any) -> dict[str, Any]:
    return {"role": "tool", "content": value if isinstance(value, str) else json.dumps(value)}


def shell(command: str, output: str) -> list[dict[str, Any]]:
    return [
        {"role": "assistant", "content": f"THOUGHT: hm\n\n```bash\n{command}\n```"},
        {"role": "user", "content": f"<returncode>0</returncode>\n<output>\n{output}\n</output>"},
    ]


def known(messages: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(fact.question, fact.answer) for fact in facts(messages)}


def test_a_result_in_json_is_asked_about_by_the_name_of_each_thing() -> None:
    user = {"user_id": "mia_1", "payment_methods": {"gift_card_62": {"balance": 113}}}
    items = [{"product_id": "p9", "item_id": "i7", "price": 52.79}]
    order = {"order_id": "#W1", "status": "pending", "items": items}

    found = known([call("get_user", user_id="mia_1"), result(user), result(order)])

    assert ("What is the balance of gift_card_62?", "113") in found
    assert ("What is the status of order #W1?", "pending") in found
    assert ("What is the price of item i7?", "52.79") in found
    # What only looks has done nothing, and a name is no answer.
    assert not [q for q, _ in found if "get_user" in q or "user id" in q]


def test_what_was_changed_is_asked_with_its_arguments() -> None:
    found = known([call("cancel_order", order_id="#W12", reason="no longer needed")])

    assert ("With which order id was cancel_order called?", "#W12") in found


def test_what_commands_printed_and_changed_is_asked() -> None:
    messages = [
        *shell("grep -rn 'def _cstack' src", "src/a/separable.py:219:def _cstack(left, right):"),
        *shell("sed -i 's/1/right/' src/a/separable.py", ""),
        *shell("cat <<'EOF' > reproduce.py\nprint(1)\nEOF", ""),
        *shell("git rev-parse --abbrev-ref HEAD", "feature/matrix"),
        {"role": "assistant", "content": "DESC flights"},
        {"role": "user", "content": "[('Airline', b'int', 'NO'), ('Dest', b'varchar(255)', '')]"},
        {"role": "assistant", "content": "du -s dir1"},
        {"role": "user", "content": "4096 testbed/dir1"},
    ]
    found = known(messages)

    assert ("Which file has the line `def _cstack(left, right):`?", "src/a/separable.py") in found
    line = "On which line of src/a/separable.py is `def _cstack(left, right):`?"
    assert (line, "219") in found
    assert ("Which file was edited in place with sed?", "src/a/separable.py") in found
    assert ("What did `git rev-parse --abbrev-ref HEAD` print?", "feature/matrix") in found
    assert ("What is the type of Dest in flights?", "varchar(255)") in found
    assert ("Which table has the column Airline?", "flights") in found
    assert ("Which value stands beside testbed/dir1?", "4096") in found


def fact(number: int, answer: str, field: str = "price") -> Fact:
    question = f"What is the {field} of item i{number}?"
    return Fact(template="seen", question=question, field=field, answer=answer)


PRICES = [fact(number, f"{number}1.50") for number in range(1, 7)]


def test_every_question_has_its_answer_once_among_others_of_the_same_field() -> None:
    asked = ask(PRICES, "", {}, most=9, seed="s")

    assert len(asked) == len(PRICES)
    for one in asked:
        assert len(one.choices) == DISTRACTORS + 1 == len(set(map(normal, one.choices)))
        assert one.choices.count(one.answer) == 1
        assert set(one.choices) <= {own.answer for own in PRICES}
        assert one.from_log == DISTRACTORS
    assert asked == ask(PRICES, "", {}, most=9, seed="s")


def test_what_the_floor_says_what_is_ambiguous_and_what_is_given_away_is_not_asked() -> None:
    twice = fact(1, "99.00")
    given = Fact(template="seen", question="Is it 31.50 or not?", field="price", answer="31.50")
    asked = ask([*PRICES, twice, given], "It costs 21.50 in all.", {}, most=9, seed="s")

    questions = {one.question for one in asked}
    assert PRICES[0].question not in questions
    assert PRICES[1].question not in questions
    assert given.question not in questions
    assert len(questions) == 4


def test_too_few_wrong_answers_in_the_log_are_filled_from_other_logs_or_not_asked() -> None:
    alone = [fact(1, "11.50")]
    pool = pools([*PRICES, fact(9, "$11.50")])

    [asked] = ask(alone, "", pool, most=9, seed="s")

    assert asked.from_log == 0
    assert ask(alone, "", {}, most=9, seed="s") == []


@pytest.mark.parametrize(
    ("one", "other"), [("Pending.", "pending"), ("$113.00", "113"), (' "SFO" ', "sfo")]
)
def test_answers_are_compared_without_what_says_nothing(one: str, other: str) -> None:
    assert normal(one) == normal(other)
    assert normal("113.5") != normal("113")
