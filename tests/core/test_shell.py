"""Which commands and queries are known to read."""

import json

import pytest

from agora.core.reading.actions import call_reads, changes
from agora.core.reading.outcome import outcome_of
from agora.core.reading.shell import only_reads, python_reads
from agora.core.reading.values import values_in
from agora.core.trajectory import Call, Step


@pytest.mark.parametrize(
    "command",
    [
        "X=1",
        "LANG=C sudo -n timeout 5 ls -l",
        "! grep key a.py",
        "< a.txt wc -l",
        "sort < a.txt",
        "deploy --help",
        "bash -lc 'ls -l'",
        "python -m pytest -q",
        "find . -name '*.py' -exec grep -n key {} +",
        "git stash list",
        "hostname",
        "curl -s https://a/b",
    ],
)
def test_a_command_that_changes_nothing_is_known_to_read(command: str) -> None:
    assert only_reads(command)


@pytest.mark.parametrize(
    "command",
    ["", "ls >", "echo `date`", "for f in *; do ls; done", "cat <<E\nx\nE", "find . -exec rm {} +"],
)
def test_what_is_not_known_to_read_is_not_taken_for_it(command: str) -> None:
    assert not only_reads(command)


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("x = 1\ny += 1\nprint(x)", True),
        ("a, b = 1, 2", True),
        ("os.environ['x'] = '1'", False),
        ("del x", False),
        ("print(", False),
        ("f()()", False),
        ("open('a', mode='rb').read()", True),
    ],
)
def test_code_that_calls_only_what_is_known_reads(code: str, reads: bool) -> None:
    assert python_reads(code) is reads


@pytest.mark.parametrize(
    ("name", "arguments", "reads"),
    [
        ("", "{}", False),
        ("_", "{}", False),
        ("get_order", '{"note": "' + "x" * 9_000 + '"}', False),
        ("get_order", "[1]", True),
        ("bash", "ls -l", True),
        ("bash", json.dumps({"command": 7}), False),
        ("run_query", json.dumps({"query": "mutation { a }"}), False),
        ("get_rows", json.dumps({"query": "mutation { a }"}), False),
        ("get_rows", json.dumps({"query": "with x as (select 1) select * from x"}), True),
    ],
)
def test_a_call_is_known_by_its_name_and_by_what_it_is_given(
    name: str, arguments: str, reads: bool
) -> None:
    assert call_reads(Call(name, arguments)) is reads


def test_what_is_too_long_to_be_read_is_not_known_to_read() -> None:
    said = "ls; " * 3_000

    assert not changes(Step(number=1, action="ls; ls", observation="", tokens=9))
    assert changes(Step(number=1, action=f"{said} rm -r x", observation="", tokens=9))


def test_why_a_call_failed_is_looked_for_only_so_deep() -> None:
    deep = '{"error": {"details": {"details": {"details": {"message": "too deep"}}}}}'

    assert outcome_of(deep, values_in(deep)).said == "error"
    assert outcome_of(deep, values_in(deep)).reason == ""
    listed = '{"errors": [[[[[]]]]]}'
    assert outcome_of(listed, values_in(listed)).said == "error"
    number = '{"error": {"code": 7}}'
    assert outcome_of(number, values_in(number)).said == "error"


@pytest.mark.parametrize("word", ["str", "replace", "edit", "editor", "text", "file", "memory"])
def test_an_editor_reads_where_its_command_says_so(word: str) -> None:
    def reads(command: str) -> bool:
        return call_reads(Call(f"{word}_tool", json.dumps({"command": command, "path": "a.py"})))

    assert reads("view")
    assert not reads("insert")


def test_a_query_that_begins_with_with_reads_unless_it_changes_something() -> None:
    def reads(query: str) -> bool:
        return call_reads(Call("get_rows", json.dumps({"query": query})))

    assert reads("WITH few AS (SELECT 1) SELECT * FROM few")
    assert not reads("WITH old AS (DELETE FROM orders RETURNING *) SELECT * FROM old")
