import json
import re

from hypothesis import given
from hypothesis import strategies as st

from agora.core.reading.records import facts_in
from agora.core.renditions.telling import MOST_NAMES, told, words

CARDS = [{"id": "card_6276", "balance": 113}, {"id": "card_7480", "balance": 6}]


def brought(observation: object, *known: str, said: tuple[str, ...] = (), most: int = 12) -> str:
    text = observation if isinstance(observation, str) else json.dumps(observation)
    return told(facts_in(text), set(known), said=set(said), most=most).text


def test_a_value_is_never_apart_from_what_identifies_it() -> None:
    assert brought(CARDS) == "id=card_6276 balance=113; id=card_7480 balance=6"
    assert brought(CARDS, "card_6276") == "id=card_6276 balance=113; id=card_7480 balance=6"
    assert brought(CARDS, most=3) == "id=card_6276 balance=113; id=card_7480; +1"


def test_what_names_a_record_comes_first_whatever_its_place() -> None:
    assert brought([{"balance": 113, "card_id": "c-77"}]) == "card_id=c-77 balance=113"


def test_what_is_nearly_json_keeps_its_keys() -> None:
    assert brought('{"id": "A-11", "price": 7, "cut off') == "id=A-11 price=7"
    assert brought("[{'id': 'A-11', 'seat': 'B-2'}, {'id': 'A-12'}]") == (
        "id=A-11 seat=B-2; id=A-12"
    )
    assert brought("[see W7148 there") == "W7148"


def test_a_name_that_is_escaped_in_the_text_is_left_out() -> None:
    assert brought('{"name": "caf\\u00e9-1", "id": "A-11"}') == "id=A-11"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_every_name_stands_in_the_observation_and_there_are_a_dozen_at_most(value: object) -> None:
    text = json.dumps(value)

    found = told(facts_in(text), set())

    names = [word for word in found.text.replace(";", " ").split() if word[0] != "+"]
    assert found.text.count("=") <= MOST_NAMES
    for name in names:
        for part in re.split("[=.,]", name):
            assert part.strip('"') in text
    assert 0 <= found.share <= 1


names = st.sampled_from(["W-100", "Abu Dhabi", "int", "src/a.py", "CamelCase", "do it now", "7"])
rows = st.lists(
    st.lists(names | st.none() | st.integers(0, 9_999) | st.text(max_size=9), max_size=4).map(
        tuple
    ),
    max_size=6,
)


@given(rows | st.lists(names, max_size=6), st.integers(0, 60))
def test_every_name_of_a_row_stands_in_the_observation_however_it_is_cut(
    table: list[object], cut: int
) -> None:
    text = repr(table)
    text = text[: max(1, len(text) - cut)]

    for fact in facts_in(text):
        assert fact.text.partition("=")[2].strip('"') in text
        assert fact.text.partition("=")[0].strip('"') in text


@given(st.text(alphabet="[](){},:='\"\\ abW-100\n", max_size=80))
def test_no_text_is_too_strange_to_be_read(text: str) -> None:
    assert told(facts_in(text), set()).share <= 1


def test_what_was_spoken_of_is_told_first() -> None:
    products = facts_in(
        '{"Air Purifier": "3821016478", "Desk Lamp": "6817146515", "Mug": "14212898"}'
    )

    assert told(products, set(), asked=words("my lamp is broken"), most=1).text == (
        '"Desk Lamp"=6817146515; +2'
    )
    assert told(products, set(), most=1).text == '"Air Purifier"=3821016478; +2'


def test_of_a_record_that_was_spoken_of_one_fact_comes_first_and_not_all() -> None:
    found = facts_in(
        '{"user_id": "omar_rossi_1241", "zip": "77271", "origin": "LAX", "born": "1970-06-06", '
        '"payments": [{"payment_id": "card_7407366", "amount": 10}]}'
    )

    assert told(found, set(), asked=words("I am omar_rossi_1241"), most=3).text == (
        "user_id=omar_rossi_1241 born=1970-06-06; payment_id=card_7407366; +3"
    )


def records_of(text: str) -> list[set[str]]:
    """Return what is said of each record, in their order."""
    found: dict[int, set[str]] = {}
    for fact in facts_in(text):
        found.setdefault(fact.record, set()).add(fact.text)
    return list(found.values())


def test_in_what_is_nearly_json_each_bracket_opens_a_record() -> None:
    cut_off = '{"sender": {"id": "usr_11"}, "recipient": {"account": "AC-200"}, "cut off'
    behind = '{"to": {"id": "usr_11"}, "account": "AC-200", "cut off'

    assert records_of(cut_off) == [{"id=usr_11"}, {"account=AC-200"}]
    assert records_of(behind) == [{"id=usr_11"}, {"account=AC-200"}]


def test_the_items_of_a_list_never_share_a_record() -> None:
    people = [{"id": "usr_11"}, {"account": "AC-200"}]

    assert records_of(json.dumps(people)) == [{"id=usr_11"}, {"account=AC-200"}]
    assert records_of(json.dumps({"people": people})) == [{"id=usr_11"}, {"account=AC-200"}]
    assert records_of(json.dumps([["A-11", "B-12"], ["C-13"]])) == [{"A-11", "B-12"}, {"C-13"}]
    assert records_of(json.dumps(["A-11", "B-12"])) == [{"A-11"}, {"B-12"}]
