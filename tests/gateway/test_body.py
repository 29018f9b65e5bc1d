"""Slices of JSON bodies: every byte that was not edited stays the client's own."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agora.gateway.body import (
    Kept,
    deeper_than,
    elements,
    fields,
    insert,
    model_of,
    rewrite,
    splice,
)

NUMBERS = st.sampled_from(
    ["1.0", "9223372036854775808", "1e-7", "-0.0", "1E+2", "18446744073709551616"]
)
SPACE = st.sampled_from(["", " ", "\n", "\r\n  ", "\t"])
STRINGS = st.one_of(
    st.text(max_size=12).map(lambda text: json.dumps(text)),
    st.text(max_size=12).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from([r'"\ud83d\ude42"', r'"\"}],["', r'"\\"', r'"\/"', '"{[,:"']),
)


def _array(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(SPACE, SPACE, st.lists(values, max_size=4)).map(
        lambda drawn: f"[{drawn[0]}{f'{drawn[1]},{drawn[0]}'.join(drawn[2])}{drawn[1]}]"
    )


def _object(values: st.SearchStrategy[str], least: int = 0) -> st.SearchStrategy[str]:
    names = st.text("abcxyz_é", min_size=1, max_size=4)
    pairs = st.dictionaries(names, values, min_size=least, max_size=4)
    return st.tuples(SPACE, SPACE, pairs).map(
        lambda drawn: (
            "{"
            + drawn[0]
            + f"{drawn[1]},{drawn[0]}".join(
                f'"{name}"{drawn[1]}:{drawn[0]}{value}' for name, value in drawn[2].items()
            )
            + drawn[1]
            + "}"
        )
    )


VALUES = st.recursive(
    st.one_of(NUMBERS, STRINGS, st.sampled_from(["null", "true", "false"])),
    lambda inner: _array(inner) | _object(inner),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(text=_object(VALUES))
def test_each_field_is_found_where_it_stands(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    try:
        expected = json.loads(raw)
    except UnicodeDecodeError:
        return
    found = fields(raw)

    assert found is not None
    assert {name: json.loads(raw[a:b]) for name, (a, b) in found.items()} == expected


@settings(max_examples=40, deadline=None)
@given(text=_array(VALUES))
def test_each_element_is_found_where_it_stands(text: str) -> None:
    raw = text.encode()
    found = elements(raw, (0, len(raw)))

    assert found is not None
    assert [json.loads(raw[a:b]) for a, b in found] == json.loads(raw)


@settings(max_examples=40, deadline=None)
@given(text=_array(VALUES), data=st.data())
def test_what_is_kept_is_sliced_and_nothing_else_is_written(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    spans = elements(raw, (0, len(raw)))
    assert spans is not None
    chosen = data.draw(st.sets(st.integers(0, max(0, len(spans) - 1)), max_size=len(spans)))
    kept = [
        Kept(n, data.draw(st.sampled_from([None, b'{"new": 1}'])))
        for n in sorted(chosen)
        if n < len(spans)
    ]

    out = b"".join(splice(raw, spans, kept))

    expected = [raw[slice(*spans[k.position])] if k.text is None else k.text for k in kept]
    found = elements(b"[" + out + b"]", (0, len(out) + 2))
    assert found is not None
    assert [(b"[" + out + b"]")[a:b] for a, b in found] == expected


@settings(max_examples=40, deadline=None)
@given(text=_array(VALUES))
def test_keeping_everything_gives_the_same_bytes(text: str) -> None:
    raw = text.encode()
    spans = elements(raw, (0, len(raw)))
    assert spans is not None
    if spans:
        whole = b"".join(splice(raw, spans, [Kept(n) for n in range(len(spans))]))
        assert whole == raw[spans[0][0] : spans[-1][1]]


@settings(max_examples=40, deadline=None)
@given(text=_object(VALUES, least=1), data=st.data())
def test_rewriting_one_field_leaves_the_bytes_of_all_others(text: str, data: st.DataObject) -> None:
    raw = b"  " + text.encode() + b" "
    span = (2, len(raw) - 1)
    old: dict[str, Any] = json.loads(text)
    name = data.draw(st.sampled_from(sorted(old)))
    before = fields(raw, *span)

    out = rewrite(raw, span, old, {**old, name: "neu"})

    assert out is not None
    assert before is not None
    start, end = before[name]
    assert out == raw[2:start] + b'"neu"' + raw[end:-1]


@settings(max_examples=40, deadline=None)
@given(raw=st.binary(max_size=60))
def test_no_bytes_make_it_fail(raw: bytes) -> None:
    for found in (fields(raw), elements(raw, (0, len(raw))), model_of(raw), deeper_than(raw, 3)):
        assert found is None or found is not NotImplemented


def test_a_field_that_stands_there_twice_is_a_doubt() -> None:
    for raw in (
        b'{"a":1,"a":2}',
        b'{"a":1,"b":2,"a":22}',
        b'{"a":{"a":1},"a":{"a":1}}',
        b'{"messages":[],"messages":[1]}',
        rb'{"\u0061":1}',
        b'[{"a":1}]',
        b'{"a":1} x',
        b"",
    ):
        assert fields(raw) is None


@settings(max_examples=40, deadline=None)
@given(depth=st.integers(0, 70), limit=st.integers(1, 64), filler=st.text(max_size=10))
def test_depth_is_what_a_reader_would_count(depth: int, limit: int, filler: str) -> None:
    value: Any = [filler, {"k}]": "[[[{"}]
    for n in range(depth):
        value = [value, '"\\['] if n % 2 else {"a": value, filler: "}"}

    raw = json.dumps(value).encode()

    assert deeper_than(raw, limit) == (depth + 2 > limit)


def test_unmatched_brackets_are_deep_only_when_they_are() -> None:
    assert deeper_than(b"[" * 100, 64)
    assert not deeper_than(b"[" * 10, 64)
    assert not deeper_than(b'{"a": "' + b"[" * 100 + b'"}', 64)


def test_some_fields_are_replaced_and_the_rest_of_the_body_stays() -> None:
    raw = b'{ "a" : 1.0, "b":[ ] , "c":"x"}'
    spans = fields(raw)
    assert spans is not None

    assert insert(raw, spans, [("c", b"2"), ("b", b"[1]")]) == b'{ "a" : 1.0, "b":[1] , "c":2}'
