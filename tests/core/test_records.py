import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.core.reading.records import _DEFINITION, _definitions, codes_in, facts_in
from agora.core.renditions.telling import MOST_NAMES, told, ways_to_tell, words

CARDS = [{"id": "card_6276", "balance": 113}, {"id": "card_7480", "balance": 6}]


def brought(observation: object, *known: str, said: tuple[str, ...] = (), most: int = 12) -> str:
    text = observation if isinstance(observation, str) else json.dumps(observation)
    return told(facts_in(text), set(known), said=set(said), most=most).text


def test_a_value_is_never_apart_from_what_identifies_it() -> None:
    assert brought(CARDS) == "id=card_6276 balance=113; id=card_7480 balance=6"
    assert brought(CARDS, "card_6276") == "id=card_6276 balance=113; id=card_7480 balance=6"
    assert brought(CARDS, most=3) == "id=card_6276 balance=113; id=card_7480; +1"


def test_what_stands_in_a_result_twice_is_told_once() -> None:
    assert brought([{"code": "A-11"}, {"code": "A-11"}]) == "code=A-11"
    assert brought("['W-100', 'W-200', 'W-100']") == "W-100,W-200"


def test_what_names_a_record_comes_first_whatever_its_place() -> None:
    assert brought([{"balance": 113, "card_id": "c-77"}]) == "card_id=c-77 balance=113"


def test_an_entry_of_a_table_is_named_by_its_key_and_only_once() -> None:
    table = {"methods": {"card_6276644": {"id": "card_6276644", "balance": 113}}}

    assert brought(table) == "methods=card_6276644 balance=113"


def test_a_number_says_what_it_is_of() -> None:
    flight = {"flight": "HAT136", "seats": {"economy": 9}, "prices": {"economy": 164}}

    assert brought(flight) == "flight=HAT136 seats.economy=9 prices.economy=164"
    assert brought({"card_6276644": {"balance": 113}}) == "card_6276644 balance=113"


def test_what_the_line_has_said_of_the_action_is_not_said_again() -> None:
    order = {"order_id": "W-4073", "status": "delivered"}

    assert brought(order, said=("W-4073",)) == "status=delivered"


def test_what_is_known_is_not_told_and_nothing_new_gives_no_words() -> None:
    assert brought({"flight": "HAT136", "gate": "B-12"}, "HAT136") == "gate=B-12"
    assert brought({"flight": "HAT136"}, "HAT136") == ""
    assert told(facts_in(""), set()).share == 1.0


def test_numbers_are_told_with_their_key_and_booleans_too() -> None:
    value = {"price": 48.50, "open": True, "none": None, "12": 3, "date": "2024-05-20"}

    assert brought(value) == "price=48.5 open=true date=2024-05-20"


def test_prose_is_not_told() -> None:
    value = {"note": "please do tell them to wait", "name": "Mei Brown", "long": "x" * 99}

    assert brought(value) == 'name="Mei Brown"'


def test_several_results_are_read_one_after_the_other() -> None:
    assert brought('{"id": "A-11"}\n{"id": "A-12"}\n') == "id=A-11,A-12"
    assert brought('{"id": "A-11"} and some text') == "id=A-11"
    assert brought('{"id": "A-11"}\n7') == "id=A-11"


def test_what_is_nearly_json_keeps_its_keys() -> None:
    assert brought('{"id": "A-11", "price": 7, "cut off') == "id=A-11 price=7"
    assert brought("[{'id': 'A-11', 'seat': 'B-2'}, {'id': 'A-12'}]") == (
        "id=A-11 seat=B-2; id=A-12"
    )
    assert brought("[see W7148 there") == "W7148"


def test_the_names_in_rows_of_a_database_are_told() -> None:
    assert brought("[('car_makers',), ('car_names',), ('cars_data',)]") == (
        "car_makers,car_names,cars_data"
    )
    assert brought("('Qandahar', 237500)\n('Abu Dhabi', 398695)\n") == 'Qandahar,"Abu Dhabi"'
    assert brought('["src/a.py", "economy", 7]') == "src/a.py,economy"


def test_what_stands_in_one_row_is_told_behind_what_the_row_is_called() -> None:
    columns = "[('Singer_ID', b'int', 'NO', 'PRI', None, ''), ('Citizenship', b'text', 'YES', '0')]"

    assert brought(columns) == "Singer_ID|int|PRI,Citizenship|text"
    assert brought(columns, most=2) == "Singer_ID,Citizenship; +3"
    assert brought(columns, said=("Singer_ID",)) == "int|PRI,Citizenship|text"
    assert brought("[('W-100', {'seat': 'B-12'}, 'W-200')]") == "W-100; seat=B-12; W-200"


def test_a_number_that_is_all_of_a_database_s_answer_is_told() -> None:
    assert brought("[(28,)]") == "28"
    assert brought("[(Decimal('27.50'),)]") == "27.50"
    assert brought("[(28, 3)]") == ""


def test_values_as_python_prints_them_are_told_like_json() -> None:
    assert brought("{'id': 'A-11', 'open': True, 'who': None, 'to': {'seat': 'B-12'}}") == (
        "id=A-11 open=True to.seat=B-12"
    )
    assert brought("[('W-100', 1), ('W-200', 2), ('W-3") == "W-100,W-200"
    assert brought("['see src/a.py there', 'and there']") == ""


def test_a_very_long_list_of_names_is_read_in_part() -> None:
    assert brought(json.dumps([f"W-{n}00" for n in range(600)])).endswith("; +36")


def test_codes_are_what_a_record_is_called_by() -> None:
    result = {
        "order_id": "#W2230026",
        "status_code": "200",
        "zip_code": "15547",
        "total": 155.81,
        "confirmation": "EHGLPQ",
        "issueNumber": 42,
        "requestId": "req-77",
        "refund": {"code": "CR-1306693", "name": "CR-22"},
        "again": {"code": "CR-1306693"},
        "country_id": "economy",
    }
    found = facts_in(json.dumps(result))

    assert [found[at].text for at in codes_in(found, asked="cancel #W2230026").values()] == [
        "confirmation=EHGLPQ",
        "issueNumber=42",
        "refund.code=CR-1306693",
    ]


def test_a_name_that_is_escaped_in_the_text_is_left_out() -> None:
    assert brought('{"name": "caf\\u00e9-1", "id": "A-11"}') == "id=A-11"


def test_very_deep_and_very_long_values_are_read_in_part() -> None:
    deep: Any = {"id": "A-11"}
    for _ in range(20):
        deep = [deep]

    assert brought(deep) == ""
    assert brought([{"id": f"A-{n}"} for n in range(600)]).endswith("; +108")


def test_of_code_places_and_definitions_are_told() -> None:
    text = "src/a.py:12:def load(path):\nsrc/a.py:40:    return x\n"

    assert brought(text) == "src/a.py:12 load src/a.py:40"


lines_of_code = st.lists(
    st.sampled_from(
        [
            "def load(path): class Inner: pass",
            "a/b.py:12:    def load(self):",
            "    async def fetch(self):",
            "120  class Deep(Base):",
            "the class of it, or a function of x",
            "def __",
            "x" * 130 + " def far(x):",
            "",
            "    return undef x",
        ]
    ),
    max_size=12,
).map("\n".join)


@given(lines_of_code)
def test_definitions_are_those_that_the_pattern_finds_in_all_of_the_text(text: str) -> None:
    assert [*map(tuple, _definitions(text))] == _DEFINITION.findall(text)


def test_what_is_no_number_is_told_as_it_is_written() -> None:
    assert brought('{"id": "A-100", "score": NaN}') == "id=A-100 score=nan"


def test_what_does_not_fit_with_what_identifies_it_gives_way_to_what_does() -> None:
    assert brought([{"id": "economy", "flight": "HAT136"}], most=1) == "id=economy; +1"


def test_of_a_long_text_the_first_paths_and_ids_are_told() -> None:
    text = "".join(f"W71{n:03}x was seen\n" for n in range(300))

    assert brought(text) == "W71000x W71001x W71002x W71003x W71004x W71005x"


def test_of_a_failed_run_tests_errors_and_files_are_told() -> None:
    text = (
        'Traceback (most recent call last):\n  File "src/a.py", line 12, in load\n'
        "ValueError: k+1 wins\nFAILED tests/test_a.py::test_load - ValueError\n"
    )

    assert brought(text) == "tests/test_a.py::test_load ValueError src/a.py"


def test_no_words_of_code_and_no_bare_numbers_are_told() -> None:
    text = "import heapq\n164  return k1 + k2  # the Great Art wins\ndef refresh(self):\n"
    text += "    def update(self):\n"

    assert brought(text) == "refresh"


def test_of_other_text_paths_ids_and_numbered_things_are_told() -> None:
    assert brought("You see a apple 1, and a shelf 12.") == "apple 1 shelf 12"
    assert brought("See /etc/hosts or order W7148 of load_config, paid 299 on 07/12/2002") == (
        "/etc/hosts W7148 load_config"
    )
    assert brought("image/jpeg and text/html") == ""
    assert len(brought(" ".join(f"W71{n:02}x" for n in range(30))).split()) == 6


def test_of_a_very_long_text_both_ends_are_read() -> None:
    text = "W1111a " + "so it goes. " * 20_000 + " W2222b"

    assert brought(text) == "W1111a W2222b"


def test_very_long_json_is_read_as_text() -> None:
    text = '["W1111a", "' + "x " * 250_000 + '"]'

    assert brought(text) == "W1111a"


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


@pytest.mark.parametrize("text", ["", " ", "[]", "{}", "null", "[[]]", '[{"a": []}]'])
def test_nothing_brings_nothing(text: str) -> None:
    assert brought(text) == ""


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


def test_a_value_that_its_identity_says_already_is_left_out() -> None:
    assert brought('{"gift_card_6276644": {"source": "gift_card", "amount": 113}}') == (
        "gift_card_6276644 amount=113"
    )


def test_the_result_of_a_calculation_is_told() -> None:
    assert brought("329.0") == "329.0"
    assert brought("329.0 of 400") == ""


def test_what_can_be_told_follows_what_is_known_though_it_is_remembered() -> None:
    cards = [{"id": f"card_{n * 1111}", "balance": n * 11, "city": "Oslo"} for n in range(9)]
    observation = json.dumps(cards)
    nothing: frozenset[str] = frozenset()
    for known in ((), ("card_3333", "Oslo"), ("card_4444",), ()):
        ways = ways_to_tell(observation, {*known}, said=nothing, asked=nothing)

        assert [way.names for way in ways] == [2, 4, 8, 12]
        for way in ways:
            assert way == told(facts_in(observation), {*known}, most=way.names)
    spoken = ways_to_tell(observation, set(), said=nothing, asked=frozenset({"7777"}))
    coded = ways_to_tell(observation, set(), said=nothing, asked=nothing, codes=(24,))
    assert [way.names for way in coded] == [1, 2, 4, 8, 12]
    assert coded[0].text == "id=card_8888; +26"
    assert all("card_8888" in way.text for way in coded)
    assert "card_7777" in spoken[0].text
    assert "card_7777" not in ways[0].text


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
