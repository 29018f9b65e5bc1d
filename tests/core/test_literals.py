import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.core.reading import READ_CHARACTERS
from agora.core.reading.literals import Literals, Number, Truth, literals


def values_of(text: str) -> tuple[Any, ...]:
    found = literals(text)
    assert found is not None
    return found.values


def test_rows_of_a_database_are_lists() -> None:
    assert literals("[('car_makers',), ('car_names', 3)]") == Literals(
        ([["car_makers"], ["car_names", "3"]],), whole=True
    )


def test_a_dictionary_has_its_keys_and_flags_as_they_were_written() -> None:
    [value] = values_of("{'id': 'A-11', 'open': True, 'gone': None, 1: \"O'Brien\", 'n': -4.5e3}")

    assert value == {"id": "A-11", "open": "True", "gone": None, "1": "O'Brien", "n": "-4.5e3"}
    assert isinstance(value["open"], Truth)
    assert isinstance(value["n"], Number)


def test_in_a_row_flags_are_flags_and_numbers_are_none() -> None:
    [[row]] = values_of("[(True, 7, False, 'x')]")

    assert [type(value) for value in row] == [Truth, Number, Truth, str]


def test_one_value_a_line_is_several_values() -> None:
    assert literals("('a', 1)\n('b', 2)\n") == Literals((["a", "1"], ["b", "2"]), whole=True)
    assert literals("('a', 1)\n('b', 2)\n(2 rows)") == Literals(
        (["a", "1"], ["b", "2"]), whole=False
    )


def test_what_a_call_was_given_stands_for_it_where_it_is_one_thing() -> None:
    text = "[(Decimal('1.50'), UUID('5f2b'), datetime.date(2024, 5, 20), b'int', set())]"

    [[row]] = values_of(text)

    assert row == ["1.50", "5f2b", None, "int", None]
    assert isinstance(row[0], Number)


def test_a_string_with_an_escape_is_not_read() -> None:
    assert values_of(r"['it\'s', 'a\\b', 'plain']") == ([None, None, "plain"],)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "see ['a', 'b']",
        "[INFO] started",
        "[2024-01-05 12:00:00] started",
        "(base) user@host",
        "('a' is missing)",
        "['a', 'b'] is the list",
        "(1, 2) is the point",
        "['a' 'b']",
        "[,]",
        "['a',, 'b']",
        "['a': 1]",
        "{'a': 1: 2}",
        "{'a': }",
        "{'a': 1, 'b'",
        "{(1, 2): 'a'}",
        "['a')",
        "[0x1f]",
        "Decimal('1')",
        "['a'",
        "[" * 40 + "'a'" + "]" * 40,
        "['a', " * 40,
        "['a' [1, {}]]",
        "['a' {'b': 1}]",
        "['a'] 'b'",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert literals(text) is None


def test_of_a_list_that_is_cut_off_what_was_complete_is_read() -> None:
    assert literals("[('a', 1), ('b', 2), ('c', ") == Literals(([["a", "1"], ["b", "2"]],), False)
    assert literals("['a', 'b', ... 300 more]") == Literals((["a", "b"],), whole=False)


def test_a_very_long_list_is_read_in_part() -> None:
    found = literals(str([("name", n) for n in range(20_000)]))

    assert found is not None
    assert not found.whole
    assert 1_000 < len(found.values[0]) < READ_CHARACTERS


plain = st.text(st.characters(exclude_characters="\\", categories=["L", "Nd", "P", "Zs"]))
written = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | plain,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(plain, inner, min_size=1, max_size=4)
    ),
    max_leaves=15,
)


def same(value: Any, found: Any) -> bool:
    """Tell whether a value was found as it was written, escaped strings aside."""
    if isinstance(value, list | tuple):
        return len(value) == len(found) and all(map(same, value, found))
    if isinstance(value, dict):
        return value.keys() == found.keys() and all(same(value[key], found[key]) for key in value)
    if isinstance(value, str) and "\\" in repr(value):
        return found is None
    return bool(found == (value if value is None or isinstance(value, str) else repr(value)))


@given(st.lists(written, min_size=1, max_size=4))
def test_what_python_printed_is_found_as_it_was(values: list[Any]) -> None:
    text = repr(values)
    found = literals(text)

    if found is None or not found.whole:
        # Keys with an escape, and nothing but brackets at the beginning, are not read.
        assert "\\" in text or text.replace("(", "[").startswith(("[[", "[{"))
    else:
        assert same(ast.literal_eval(text), found.values[0])


@given(st.text(alphabet="[](){},:'\"\\ ab1.-NoneTrue\n", max_size=60))
def test_no_text_is_too_strange_and_every_string_stands_in_it(text: str) -> None:
    found = literals(text)

    unread = list(found.values) if found else []
    while unread:
        value = unread.pop()
        if isinstance(value, dict):
            unread += [*value, *value.values()]
        elif isinstance(value, list):
            unread += value
        else:
            assert value is None or value in text
