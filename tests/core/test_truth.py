"""What holds for everything that is said of a shortened step, whatever came back.

`AGORA_EXAMPLES` says how many steps each property sees: for the long run, 100000. A test that is
marked as failing has the shortest case that shows a defect, and a twin that holds without it.
"""

import contextlib
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from agora import Budget, Compressor, Step
from agora.core import Call, Characters, Result

# Private: properties of each fact, of which a prompt shows some.
from agora.core.action_lines import action_lines
from agora.core.actions import NO_TOOLS
from agora.core.facts import names_in, words_in
from agora.core.forms import options_of
from agora.core.outcome import outcome_of
from harness.negations import SENTENCES

EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "300"))
CUT = "…"

often = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

# What comes back, and what is called.

names = st.sampled_from(
    ["A-11", "usr_11", "AC-200", "W4073673", "Abu Dhabi", "src/a.py", "economy", "EHGLP3", "café-1"]
)
"""Values that a line can tell, without signs that part what it says."""
prose = st.sampled_from(
    ["so it goes and goes", "not found", "please tell them to wait", "no seats left", ""]
)
scalars = st.none() | st.booleans() | st.integers(-9, 99_999) | names | prose
plain_keys = st.sampled_from(
    """id name status code balance account open sender recipient error message success exit_code
    result data items tags seat W-7001 x_1 Item""".split()
)
keys = plain_keys | st.sampled_from(
    ["ключ", "名前", "größe", "returncode", "Water Bottle", "two words", "a.b"]
)


def objects_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(keys, inner, min_size=1, max_size=4)


values = st.recursive(
    objects_of(scalars),
    lambda inner: (
        objects_of(scalars | inner | st.lists(scalars | inner, max_size=3))
        | st.lists(inner | scalars, max_size=3)
    ),
    max_leaves=12,
)
json_results = st.tuples(values, st.booleans(), st.sampled_from([None, 1])).map(
    lambda drawn: json.dumps(drawn[0], ensure_ascii=drawn[1], indent=drawn[2])
)
sentences = st.tuples(st.sampled_from(SENTENCES), names).map(
    lambda drawn: drawn[0][0].format(drawn[1])
)
shell_results = st.sampled_from(
    [
        "src/a.py:12:def load(path):\nsrc/a.py:40:    return x",
        "<returncode>1</returncode>\n<output>\nboom in src/a.py\n</output>",
        "<returncode>0</returncode>\n<output>\ntotal 4\n</output>",
        'Traceback (most recent call last):\n  File "src/a.py", line 12, in load\nKeyError: 3',
        "collected 2\nFAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed, 1 passed in 0.1s",
        "fatal: not a git repository",
        "Exit code: 127\nWall time: 0.1 seconds\nOutput:\nbash: frob: command not found",
        "a.txt\nb.txt\n[exit code: 0]",
        "[('Singer_ID', 'int'), ('Citizenship', 'text')]",
        "In the box is: a go, a red cup (with a lid, open). On it you see: nothing, a go",
        "",
        " \n",
        "[]",
    ]
)
results = json_results | sentences | shell_results | st.text(max_size=40)
wires = st.booleans()

texts = st.text(max_size=12) | st.sampled_from(
    [
        "my docs/tax 2023.pdf",
        "Please do tell them about order W4073673 at once, and then wait for an answer.",
        "1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 12 + 13 + 14",
        "ls\nrm -r build",
        "ls rm -r build",
        "true",
        "7",
    ]
)
argument_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | names | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=8,
)
argument_keys = st.sampled_from(
    ["id", "dry_run", "armed", "to", "note", "command", "ids", "größe", "two words", "path", "all"]
)
arguments = st.dictionaries(argument_keys, argument_values, max_size=7)
tools = st.sampled_from(["get_item", "book_item", "bash", "mcp__files__write", "查询天气", "预订"])
calls = st.builds(
    lambda name, given: Call(name, json.dumps(given, ensure_ascii=False)), tools, arguments
)
LOOK = Call("look", "{}")


# What is said.


def step_of(*came: Result, calls: Sequence[Call] = (), number: int = 1) -> Step:
    return Step(
        number=number,
        action="",
        observation="\n".join(result.text for result in came),
        tokens=100_000,
        calls=tuple(calls) or (LOOK,) * len(came),
        action_tokens=90_000,
        failed=len(came) == 1 and came[0].failed,
        several=came if len(came) > 1 else (),
    )


def said_of(*came: Result, task: str = "go") -> list[tuple[str, ...]]:
    """Return all that could be said of a step's results: for each way, a text for each of them."""
    options = options_of(
        step_of(*came),
        names_in(task),
        words_in(task),
        keeps_place=True,
        tools=NO_TOOLS,
        counter=Characters(),
    )
    return [tuple(place.result or "" for place in form.places) for form in options.shorter]


def brief(text: str) -> str:
    """Return a short result as it is quoted whole."""
    text = text.strip()
    return f'"{text}"' if any(map(str.isalpha, text)) else text


def short_of(call: Call) -> str:
    """Return a call as a line."""
    return " ".join(action_lines(step_of(Result("x"), calls=(call,))))


def lines_of(call: Call) -> set[str]:
    """Return every line that could be written of what was done in a call."""
    return {short_of(call)}


# (a) Verbatim.

_WORD = re.compile(r'"[^"]*"|[^\s;,|="]+')
_HOW = re.compile(r"(?:ok|error|exit -?\d+)(?: |\Z)")
_MORE = re.compile(r"\+\d+\Z")


def source_of(text: str) -> str:
    """Return a result with its texts as they read once they are decoded, on one line."""
    parts = [text]
    waiting: list[Any] = []
    with contextlib.suppress(ValueError):
        waiting.append(json.loads(text))
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            parts += one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str):
            parts.append(one)
    return on_one_line("\n".join(parts))


def on_one_line(text: str) -> str:
    return " ".join("".join([sign if sign.isprintable() else " " for sign in text]).split())


def spans_of(said: str, result: Result) -> Iterator[str]:
    """Yield what is said of a result without the words that are ours."""
    if not said or said in (brief(result.text), "(empty)"):
        yield said.removeprefix("(empty)").removeprefix('"').removesuffix('"')
        return
    went = outcome_of(result)
    assert said.startswith(went.status)
    rest = said[len(went.status) :].removesuffix("(empty)").strip()
    if went.reason:
        assert rest.startswith(f'"{went.reason}"')
        yield from went.reason.split(CUT)
        rest = rest[len(went.reason) + 2 :]
    for word in _WORD.findall(rest):
        if not _MORE.fullmatch(word):
            yield from word.strip('"').split(".") if "." in word else [word.strip('"')]


@often
@given(results, wires)
def test_every_span_of_what_is_said_stands_in_the_result(text: str, failed: bool) -> None:
    source = source_of(text)
    for (said,) in said_of(Result(text, failed=failed)):
        for span in spans_of(said, Result(text, failed=failed)):
            assert on_one_line(span) in source, said


# (b) Joined as the source joins it.

_PAIR = re.compile(r'((?:"[^"]*"|[^\s=;,|"])+)=((?:"[^"]*"|[^\s;,"]+)(?:,(?:"[^"]*"|[^\s;,="]+))*)')


def all_objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from all_objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from all_objects(inner)


def written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def has(found: Any, way: Sequence[str], value: str) -> bool:
    """Return True if an object has a value at the end of a path: alone, in a list, or as a key."""
    if not way:
        if isinstance(found, list):
            return any(has(one, way, value) for one in found if not isinstance(one, dict))
        return value in found if isinstance(found, dict) else written(found) == value
    if not isinstance(found, dict):
        return False
    heads = [(".".join(way[:end]), way[end:]) for end in range(1, len(way) + 1)]
    return any(head in found and has(found[head], rest, value) for head, rest in heads)


def pairs_in(group: str) -> list[tuple[list[str], list[str]]]:
    return [
        (
            [part.strip('"') for part in key.split(".")],
            [one.strip('"') for one in re.findall(r'"[^"]*"|[^,"]+', values_said)],
        )
        for key, values_said in _PAIR.findall(group)
    ]


def stands_together(group: str, value: Any) -> bool:
    """Return True if facts side by side are in one object."""
    pairs = pairs_in(group)
    objects = list(all_objects(value))
    if len(pairs) == 1:
        way, each = pairs[0]
        return all(any(has(one, way, said) for one in objects) for said in each)
    if any(all(has(one, way, v) for way, vs in pairs for v in vs) for one in objects):
        return True
    # The entry of a table: `methods=card_6276644 balance=113`, where the first is its key.
    (way, [*first]), *others = pairs or [(["-"], [""])]
    return any(
        all(has(entry, path, v) for path, vs in others for v in vs)
        for one in objects
        if len(way) == 1 and isinstance(table := one.get(way[0]), dict) and len(first) == 1
        if isinstance(entry := table.get(first[0]), dict)
    )


def check_joined(value: Any) -> None:
    result = Result(json.dumps(value, ensure_ascii=False))
    went = outcome_of(result)
    for (said,) in said_of(result):
        if said == brief(result.text):
            continue
        rest = said.removeprefix(went.status).lstrip()
        rest = rest.removeprefix(f'"{went.reason}"') if went.reason else rest
        for group in rest.split("; "):
            if pairs_in(group):
                assert stands_together(group, value), group


flat = st.dictionaries(plain_keys, scalars, max_size=4)
two_deep = st.dictionaries(plain_keys, scalars | flat | st.lists(flat, max_size=3), max_size=4)
three_deep = st.dictionaries(plain_keys, scalars | two_deep | st.lists(two_deep, max_size=3))


@often
@given(three_deep | st.lists(two_deep, max_size=3))
def test_what_stands_side_by_side_stands_in_one_object_of_the_source(value: Any) -> None:
    check_joined(value)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"от": {"id": "usr_11"}, "кому": {"account": "AC-200"}}, id="other letters"),
        pytest.param({"name": "B-22", "two words": {"id": "A-11"}}, id="a key of two words"),
        pytest.param({"id": "A-11", "a": {"tags": ["W-100"]}}, id="a list in an object"),
        pytest.param({"two words": {"a.b": ["W-100"]}}, id="a key with a dot"),
        pytest.param(
            {"id": "C-1", "a": {"b": {"c": {"d": {"e": {"seat": "A-11"}}}}}}, id="five deep"
        ),
    ],
)
def test_a_value_whose_way_cannot_be_said_joins_no_other_object(value: Any) -> None:
    check_joined(value)
    check_joined({**value, "text": "so it goes and goes. " * 9})


@often
@example({"от": {"id": "usr_11"}, "кому": {"account": "AC-200"}})
@given(values)
def test_whatever_the_keys_what_stands_side_by_side_stands_in_one_object(value: Any) -> None:
    check_joined(value)


@often
@given(st.lists(st.lists(names, min_size=1, max_size=3), min_size=1, max_size=4))
def test_the_names_of_a_row_stand_in_one_list_of_the_source(rows: list[list[str]]) -> None:
    text = json.dumps(rows, ensure_ascii=False)
    for (said,) in said_of(Result(text)):
        listed = "" if said == brief(text) else said
        for row in filter(None, listed.split("; ")):
            told = {name.strip('"') for name in row.split(",")}
            assert any(told <= {*one} for one in rows), said


# (c), (f) Each call its own.


@often
@given(results, results, wires, wires)
def test_swapping_two_results_swaps_what_is_said(
    one: str, other: str, how: bool, other_how: bool
) -> None:
    first, second = Result(one, 0, how), Result(other, 0, other_how)
    there = said_of(first, second._replace(call=1))
    back = said_of(second, first._replace(call=1))

    assert there == [(said, before) for before, said in back]


@often
@given(results, results, results, wires)
def test_what_is_said_of_a_call_never_depends_on_another_s_result(
    text: str, other: str, another: str, failed: bool
) -> None:
    result = Result(text, 0, failed)

    [one, two] = [{said[0] for said in said_of(result, Result(x, 1))} for x in (other, another)]
    assert one == two


@settings(often, max_examples=max(5, EXAMPLES // 10))
@given(results, results)
def test_in_messages_each_note_stands_where_its_result_stood(one: str, other: str) -> None:
    assume(one.strip() and other.strip())
    calls = [
        {"id": i, "type": "function", "function": {"name": "book_item", "arguments": "{}"}}
        for i in ("call_a", "call_b")
    ]
    later = [{**calls[0], "id": "call_c"}]
    filler = " ".join(["so it goes and goes"] * 400)
    notes: list[list[str]] = []
    for first, second in ((one, other), (other, one)):
        found = Compressor(
            edits="every_call",
            budget=Budget(limit=1),
            min_tokens=0,
            k_recent=0,
        ).compress(
            [
                {"role": "user", "content": "Go."},
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "call_a", "content": f"{first}\n{filler}"},
                {"role": "tool", "tool_call_id": "call_b", "content": f"{second}\n{filler}"},
                {"role": "assistant", "content": None, "tool_calls": later},
                {"role": "tool", "tool_call_id": "call_c", "content": "done"},
            ],
            format="openai",
        )
        notes.append([message["content"] for message in found.messages[2:4]])

    assert notes[0] == notes[1][::-1]


# (d) Negation.


@often
@given(st.sampled_from(SENTENCES), names, st.sampled_from(["go", "Is an apple in the fridge?"]))
def test_a_sentence_and_its_negation_are_never_told_alike(
    sentence: tuple[str, str], name: str, task: str
) -> None:
    said, denied = [
        {text for (text,) in said_of(Result(one.format(name) + " " * 60 + "." * 9), task=task)}
        for one in sentence
    ]

    assert not (said & denied) - {""}


def test_a_listed_thing_that_the_user_named_comes_with_the_words_before_its_colon() -> None:
    text = "In the box is: a pen, a red cup (containing nothing), a lid. Not in the bag: a key."
    said = said_of(Result(text), task="Bring me the cup and the key")

    assert said[-1] == ('"In the box is"="a red cup"',)


@pytest.mark.parametrize(
    "denied",
    [
        "{} नहीं है", "{} isnt open", "{} is hardly open", "{} fails to open", "unable to book {}",
        "{} δεν είναι", "לא {}", "{} nem jó", "{} není", "{} ไม่", "Nu {}", "{} tidak", "weder {}",
        "{} keineswegs", "tampoco {}", "{} нельзя",
    ],
)  # fmt: skip
def test_a_denial_in_words_that_are_not_listed_is_not_told_as_the_name_alone(denied: str) -> None:
    for (said,) in said_of(Result(denied.format("HAT136") + " " * 60 + "." * 9)):
        assert said != "HAT136"


def test_a_place_in_code_is_not_told_alike_whether_its_line_denies_or_not() -> None:
    one, other = (f"src/b.py:12: the check did {word}run\n" + "." * 99 for word in ("", "not "))

    assert said_of(Result(one))[-1] != said_of(Result(other))[-1]


# (e) The order of keys.


def test_an_escaped_argument_is_quoted_only_as_the_call_spells_it() -> None:
    spelled = short_of(Call("read", '{"text": "订\\"b"}'))
    escaped = short_of(Call("read", '{"text": "\\u8ba2\\"b"}'))

    assert (spelled, escaped) == ('read text="订\\"b"', "read text=…")


def permuted(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        return {key: permuted(inner, chance) for key, inner in items}
    return [permuted(one, chance) for one in value] if isinstance(value, list) else value


def check_order(value: Any, seed: int) -> None:
    other = permuted(value, random.Random(seed))

    said, again = [outcome_of(Result(json.dumps(one))) for one in (value, other)]
    assert said == again


@often
@given(three_deep | st.lists(two_deep, max_size=3), st.integers(0, 99))
def test_the_order_of_keys_changes_no_outcome(value: Any, seed: int) -> None:
    check_order(value, seed)


@often
@example({"exit_code": 0, "returncode": 1}, 1)
@given(values, st.integers(0, 99))
def test_the_order_of_keys_that_say_the_same_changes_no_outcome(value: Any, seed: int) -> None:
    check_order(value, seed)


@pytest.mark.parametrize("after", ["[Command finished with exit code 1]", "fatal: no repository"])
def test_what_follows_an_object_is_read_for_the_outcome_too(after: str) -> None:
    assert outcome_of(Result(f'{{"exit_code": 0}}\n{after}')).status != "exit 0"


# (g) Different calls.


def check_apart(one: set[str], other: set[str]) -> None:
    for line in one & other:
        assert CUT in line


def given_to(tool: str, **arguments: Any) -> Call:
    return Call(tool, json.dumps(arguments, ensure_ascii=False))


def looks(value: Any) -> str:
    """Return how a value looks where neither types nor spaces are told apart."""
    if isinstance(value, list):
        return ",".join(map(looks, value))
    return " ".join(written(value).replace('"', "").split())


@often
@given(calls, calls)
def test_different_calls_read_alike_only_where_both_are_cut(one: Call, other: Call) -> None:
    assume(one.name.isascii() and other.name.isascii())
    first, second = (looks([*map(list, json.loads(c.arguments).items())]) for c in (one, other))
    assume(first != second)

    check_apart({short_of(one)}, {short_of(other)})


twins = st.tuples(tools.filter(str.isascii), arguments, argument_keys, argument_values).flatmap(
    lambda drawn: st.tuples(
        st.just(given_to(drawn[0], **{**drawn[1], drawn[2]: drawn[3]})),
        argument_values.filter(lambda other: looks(other) != looks(drawn[3])).map(
            lambda other: given_to(drawn[0], **{**drawn[1], drawn[2]: other})
        ),
    )
)
"""Two calls that differ in one argument."""


@often
@given(twins)
def test_calls_that_differ_in_one_argument_read_alike_only_where_both_are_cut(
    both: tuple[Call, Call],
) -> None:
    check_apart(*({short_of(one)} for one in both))


@often
@example(
    (
        given_to("get", id=None, dry_run={"name": "A-11"}),
        given_to("get", id=[], dry_run={"name": "A-11"}),
    )
)
@given(twins)
def test_in_full_too_they_read_alike_only_where_both_are_cut(both: tuple[Call, Call]) -> None:
    check_apart(*map(lines_of, both))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(given_to("查询"), given_to("预订"), id="names in other letters"),
        pytest.param(
            given_to("sh", command=["rm", "a b"]),
            given_to("sh", command=["rm", "a", "b"]),
            id="words of a command",
        ),
        pytest.param(
            given_to("t", a='x y" b="z w'), given_to("t", a="x y", b="z w"), id="quotes in a text"
        ),
        pytest.param(given_to("t", ids=["A-1"]), given_to("t", ids="A-1"), id="a list of one"),
    ],
)
def test_calls_that_differ_in_little_do_not_read_alike(one: Call, other: Call) -> None:
    check_apart({short_of(one)}, {short_of(other)})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            given_to("sh", command="echo 'a\nb'"),
            given_to("sh", command="echo 'a; b'"),
            id="a line's end in quotes",
        ),
        pytest.param(
            given_to("sh", command="ls", cwd="/a"),
            given_to("sh", command="ls cwd=/a"),
            id="an argument in a command",
        ),
        pytest.param(
            given_to("t", command="ls"), given_to("t", script="ls"), id="keys of commands"
        ),
        pytest.param(given_to("t", a=1), given_to("t", a="1"), id="a number as text"),
    ],
)
@pytest.mark.xfail(strict=True, reason="commands have no key, and texts no quotes, to save tokens")
def test_calls_that_differ_in_a_sign_do_not_read_alike(one: Call, other: Call) -> None:
    check_apart({short_of(one)}, {short_of(other)})


# (h) Nothing.


@often
@given(st.text(" \n\t", max_size=5))
def test_an_empty_result_says_so(text: str) -> None:
    assert {said for (said,) in said_of(Result(text))} == {"(empty)"}


@pytest.mark.parametrize(
    "result",
    [Result("", failed=False), Result("", failed=True), Result("[]", failed=False)],
    ids=["nothing", "error", "an empty list"],
)
def test_an_empty_result_says_so_beside_how_it_went(result: Result) -> None:
    for (said,) in said_of(result):
        assert "(empty)" in said or "[]" in said


@pytest.mark.parametrize(
    "result",
    [
        Result("<returncode>0</returncode>\n<output>\n</output>"),
        Result("Exit code: 0\nWall time: 0.1 seconds\nOutput:\n"),
        pytest.param(
            Result(json.dumps({"output": "", "metadata": {"exit_code": 0}})),
            marks=pytest.mark.xfail(
                strict=True, reason="a record with an empty field is not empty"
            ),
        ),
    ],
    ids=["a frame", "a header", "json"],
)
def test_an_empty_result_in_a_frame_says_so(result: Result) -> None:
    for (said,) in said_of(result):
        assert "(empty)" in said or "[]" in said
