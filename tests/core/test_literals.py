import ast
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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


def test_a_string_with_an_escape_is_not_read() -> None:
    assert values_of(r"['it\'s', 'a\\b', 'plain']") == ([None, None, "plain"],)


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
