"""What holds for everything that is said of a shortened step, seen in the prompt that is sent.

Each test compresses a conversation whose second step has two calls with long results, and reads
what stands for them afterwards: a line in a marker, or a note where the result was.
"""

import json
import os
import random
import re
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agora import Budget, Compressor
from harness.negations import SENTENCES

EXAMPLES = int(os.environ.get("AGORA_EXAMPLES", "100"))
often = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FILLER = "so it goes and goes " * 200
"""Makes a result too long to stay whole, and names nothing."""
OUR_WORDS = frozenset({"error", "exit", "(empty)", "result", "calls"})

Texts = Mapping[str, str]


def said_of(one: str, other: str) -> Texts:
    """Return the lines for the results of `book_a` and `book_b`, which are too long themselves."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go on with it."}]

    def step(*calls: tuple[str, str, str]) -> None:
        functions = [{"name": name, "arguments": given} for name, given, _ in calls]
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": f"call_{f['name']}", "type": "function", "function": f}
                    for f in functions
                ],
            }
        )
        messages.extend(
            {"role": "tool", "tool_call_id": f"call_{name}", "content": result}
            for name, _, result in calls
        )

    step(("look_around", "{}", FILLER))
    step(("book_a", "{}", long(one)), ("book_b", "{}", long(other)))
    step(("look_left", "{}", "nothing"))
    step(("look_right", "{}", "nothing"))
    step(("look_up", "{}", "nothing"))
    sent = Compressor(
        edits="every_call", budget=Budget(limit=1_500), min_tokens=0, k_recent=2
    ).compress(messages, format="openai")
    texts: dict[str, str] = {}
    for message in sent.messages:
        lines = str(message.get("content")).split("\n")
        for line in lines:
            if in_marker := re.match(r"2 (book_[ab])\b(?:.*? -> )?(.*)", line):
                texts[in_marker[1]] = in_marker[2] if " -> " in line else ""
        if note := re.match(r"\[step 2: [^\]]*\] ?(.*)", lines[0]):
            texts[str(message["tool_call_id"]).removeprefix("call_")] = note[1]
    assert texts.keys() == {"book_a", "book_b"}
    return texts


def long(text: str) -> str:
    """Return a result with so much more that it cannot stay, inside the object if it is one."""
    try:
        value = json.loads(text)
    except ValueError:
        return f"{text}\n{FILLER}"
    if isinstance(value, dict):
        return json.dumps({**value, "remark": FILLER}, ensure_ascii=False)
    return f"{text}\n{FILLER}"


# What comes back.

names = st.sampled_from(
    ["A-11", "usr_11", "AC-200", "W4073673", "Abu Dhabi", "src/a.py", "economy", "EHGLP3", "café-1"]
)
numbers = st.integers(100, 99_999).map(lambda number: number / 4 if number % 2 else number)
keys = st.sampled_from(
    """id name status code balance account open sender recipient message data items seat W-7001 x_1
    ключ 名前 größe returncode error success exit_code result""".split()
)
scalars = st.none() | st.booleans() | numbers | names | st.sampled_from(["no seats left", ""])
records = st.dictionaries(keys, scalars, min_size=1, max_size=5)
objects = st.dictionaries(
    keys, scalars | records | st.lists(records, max_size=3), min_size=1, max_size=5
)
json_results = objects.map(lambda value: json.dumps(value, ensure_ascii=False))
sentences = st.tuples(st.sampled_from([each for pair in SENTENCES for each in pair]), names).map(
    lambda drawn: drawn[0].format(drawn[1])
)
shell_results = st.sampled_from(
    [
        "src/a.py:12:def load(path):\nsrc/a.py:40:    return x",
        "<returncode>1</returncode>\n<output>\nboom in src/a.py",
        "<returncode>0</returncode>\n<output>\ntotal 4",
        'Traceback (most recent call last):\n  File "src/a.py", line 12, in load\nKeyError: 3',
        "Error: user usr_11 not found",
        "fatal: not a git repository",
        "Exit code: 127\nWall time: 0.1 seconds\nOutput:\nbash: frob: command not found",
        "[('Singer_ID', 'int'), ('Citizenship', 'text')]",
        "FEHLER:  Relation »kunden« existiert nicht",
        "",
    ]
)
results = json_results | sentences | shell_results


def tokens_of(text: str) -> list[str]:
    """Return the words and values of a text, without the signs around and between them."""
    return [token for token in re.split(r"[\s=\[\](){},;\"'|»«]+|…|\+\d+", text) if token]


def source_of(*texts: str) -> str:
    """Return all that stands in these texts, as it is and as JSON means it."""
    parts: list[str] = [*texts]
    for text in texts:
        try:
            waiting: list[Any] = [json.loads(text)]
        except ValueError:
            continue
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                parts += value
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value
            else:
                parts.append(str(value))
    return "\n".join(parts)


@often
@given(results, results)
def test_every_span_stands_in_its_own_step(one: str, other: str) -> None:
    texts = said_of(one, other)

    for call, result in (("book_a", one), ("book_b", other)):
        source = source_of(long(result))
        for token in tokens_of(texts[call]):
            parts = [token] if token in source else token.split(".")
            assert token in OUR_WORDS or all(part in source for part in parts), (call, texts[call])


@often
@given(records, records)
def test_no_value_is_said_without_its_key(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    texts = said_of(json.dumps(one, ensure_ascii=False), json.dumps(other, ensure_ascii=False))

    for call, record in (("book_a", one), ("book_b", other)):
        text = re.sub(r"^(?:error|exit -?\d+)(?!\S)(?: \"[^\"]*\")?", "", texts[call])
        for match in re.finditer(r"\d[\d.]{2,}", text):
            before = text[: match.start()].rstrip('"')
            holders = [
                key for key, value in record.items() if match[0].rstrip(".") in str(value)
            ] + [key for key in record if match[0] in key]
            assert any(
                re.search(rf"{re.escape(key)}\"?[=:] ?\S*$", before) for key in holders
            ) or any(match[0] in key for key in record), (texts[call], match[0])


@often
@given(st.lists(records, min_size=2, max_size=4))
def test_what_stands_as_key_and_value_stands_together_in_one_object(
    table: list[Mapping[str, Any]],
) -> None:
    texts = said_of(json.dumps({"items": table}, ensure_ascii=False), "fine")

    pairs = {(key, str(value).lower()) for record in table for key, value in record.items()}
    for key, value in re.findall(r"([^\s=\"]+)=(\"[^\"]*\"|[^\s,;\]]+)", texts["book_a"]):
        if value.strip('"') not in ("…", "[]", "{}"):
            assert (key.split(".")[-1], value.strip('"').lower()) in pairs, texts["book_a"]


@often
@given(st.sampled_from(["{} is paid", '{{"code": "{}"}}', "Error: {} failed", '{{"error": "{}"}}']))
def test_what_parallel_calls_bring_stays_apart(shape: str) -> None:
    texts = said_of(shape.format("HAT-111"), shape.format("HAT-999"))

    assert "999" not in texts["book_a"]
    assert "111" not in texts["book_b"]


@often
@given(results, results)
def test_swapping_two_results_swaps_what_is_said(one: str, other: str) -> None:
    straight, swapped = said_of(one, other), said_of(other, one)

    assert (straight["book_a"], straight["book_b"]) == (swapped["book_b"], swapped["book_a"])


@often
@given(results, results, results)
def test_what_is_said_of_a_call_never_depends_on_another_calls_result(
    text: str, other: str, another: str
) -> None:
    assert said_of(text, other)["book_a"] == said_of(text, another)["book_a"]
    assert said_of(other, text)["book_b"] == said_of(another, text)["book_b"]


@often
@given(st.sampled_from(SENTENCES), names)
def test_a_sentence_and_its_negation_are_never_told_alike(pair: tuple[str, str], name: str) -> None:
    said, denied = (said_of(sentence.format(name), "fine")["book_a"] for sentence in pair)

    assert said != denied or not any(part in said for part in name.split())


@often
@example({"exit_code": 0, "returncode": 1}, 1)
@example({"error": {"message": "no seats", "code": 7}, "success": False}, 3)
@given(objects, st.integers(0, 99))
def test_the_order_of_keys_changes_no_outcome(value: Mapping[str, Any], seed: int) -> None:
    chance = random.Random(seed)

    def outcome_of(drawn: Mapping[str, Any]) -> str:
        text = said_of(json.dumps(drawn, ensure_ascii=False), "fine")["book_a"]
        return (re.match(r"(?:error|exit -?\d+)(?!\S)(?: \"[^\"]*\")?", text) or [""])[0]

    assert outcome_of(value) == outcome_of(_permuted(value, chance))


def _permuted(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        chance.shuffle(items)
        return {key: _permuted(inner, chance) for key, inner in items}
    return [_permuted(item, chance) for item in value] if isinstance(value, list) else value


def test_success_is_never_inferred_and_a_failure_says_why() -> None:
    texts = said_of('{"success": false, "message": "no seats left"}', '{"id": "A-11"}')

    assert texts["book_a"].startswith('error "no seats left"')
    assert texts["book_b"] == "id=A-11"
