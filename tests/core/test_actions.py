"""Which calls and commands are known to change nothing; all others count as changes."""

import json
from typing import Any

import pytest

from agora import Step
from agora.core import Call

# Private: tables of commands: a step shows only a part of what is decided.
from agora.core.actions import Tools, changes, only_command, reads_only


def call_reads(name: str, arguments: object = None, tools: Tools = Tools()) -> bool:  # noqa: B008
    return reads_only(Call(name, json.dumps(arguments or {}, ensure_ascii=False)), tools)


def text_reads(action: str) -> bool:
    return not changes(Step(number=1, action=action, observation="", tokens=9))


READING_COMMANDS = (
    "ls -l",
    "cd /app && git log --oneline 2>/dev/null | head -5",
    "grep -n 'rm -rf' f",
    'grep -n "<div>" a.html',
    "grep -E '^(a|b)>' f  # look for tags",
    "find . -name '*.py' | sort | uniq -c",
    "sed -n 10,20p src/a.py",
    "sed -n '/def load/,/^$/p' src/a.py",
    "cat < a.txt 2>&1 | wc -l",
    "bash -lc 'ls -l'",
    "test $a -gt 3 && echo y",
    "ls -l\ncat f",
    "awk -F, '{print $1}' a.csv",
    "curl -sL -H 'Accept: text/html' https://a/b | head -5",
    "SELECT name FROM museum WHERE opening_year > 2011",
    "WITH old AS (SELECT a FROM t) SELECT count(a) FROM old",
)
CHANGING_COMMANDS = (
    "",
    "deploy --all",
    "ls > files",
    "ls >",
    "ls; rm a",
    "ls & rm a",
    "ls $(rm a)",
    "echo `rm a`",
    'grep "$(rm a)" f',
    "cat <<E\nx\nE",
    "cat <(rm a)",
    "X=1 git diff",
    "bash -c 'rm a'",
    "find . -exec rm {} +",
    "find . -fprint0 names",
    "sort -o a a",
    "sort -uo a a",
    "sort --compress-program=rm a",
    "uniq names sorted",
    "sed -n 'w out' f",
    "sed -n '1e rm a' f",
    "sed -n -i 1p f",
    "sed -i s/a/b/ f",
    "awk '{print > $1}' f",
    "awk 'BEGIN{system(\"rm a\")}'",
    "awk -f program f",
    "rg --pre rm key",
    "git diff --output=x.patch",
    "git grep -Orm key",
    "git branch -D x",
    "curl -sXPOST https://a/b",
    "curl -so page.html https://a/b",
    "curl -s -d a=1 https://a/b",
    "awk -i inplace 1 f",
    "pip install x",
    "pip list --log out.txt",
    "sudo ls",
    "xargs rm < list",
    "SELECT 1; DROP TABLE museum",
    "SELECT delete_user(1)",
    "SELECT evil.count(1)",
    "SELECT 'a' INTO OUTFILE 'f'",
    "SELECT $$'$$, delete_user(1), $$'$$",
    "SELECT 1 -- '\n, delete_user(1) -- '",
    "SELECT 'a\\'', delete_user(1) -- '",
    'SELECT "delete_user"(1)',
    "PRAGMA user_version = 3",
    "WITH old AS (DELETE FROM t RETURNING *) SELECT * FROM old",
)


@pytest.mark.parametrize("command", READING_COMMANDS)
def test_a_command_that_changes_nothing_is_known_to_read(command: str) -> None:
    assert text_reads(f"```bash\n{command}\n```")
    assert call_reads("run_command", {"command": command})
    assert call_reads("shell", {"command": ["bash", "-lc", command]}) or "bash" in command


@pytest.mark.parametrize("command", CHANGING_COMMANDS)
def test_a_command_that_may_change_something_is_not_known_to_read(command: str) -> None:
    assert not text_reads(f"```bash\n{command}\n```")
    assert not call_reads("run_command", {"command": command})
    assert not call_reads("get_output", {"command": command})
    assert not call_reads("shell", {"command": ["bash", "-lc", command]})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_order", {"id": "W-1"}),
        ("get_order_updates", {}),
        ("searchFlights", {"from": "JFK"}),
        ("search", {"query": "flights from Paris, then trains"}),
        ("mcp__github__list_commits", {}),
        ("github_get_commit", {}),
        ("calculate", {"expression": "(2 + 3) * 4"}),
        ("think", {"thought": "delete > all; then $(run)"}),
        ("str_replace_editor", {"command": "view", "path": "a.py"}),
        ("shell", {"command": ["ls", "-l", "a b"]}),
        ("execute_sql", {"query": "SELECT a FROM t WHERE b > 3"}),
        ("http_request", {"url": "https://a/b", "method": "GET"}),
        ("buscar_vuelos", {}),
        ("查询订单", {}),
        ("검색", {}),
    ],
)
def test_a_tool_that_changes_nothing_is_known_to_read(name: str, arguments: Any) -> None:
    assert call_reads(name, arguments)
    assert not call_reads(name, arguments, Tools(changing=[name]))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("", {}),
        ("_", {}),
        ("frobnicate", {}),
        ("book_reservation", {}),
        ("updateOrder", {}),
        ("getAndIncrement", {}),
        ("find_or_create", {}),
        ("check_in_passenger", {}),
        ("list_item_for_sale", {}),
        ("buscar_reemplazar", {}),
        ("lesen_und_schreiben", {}),
        ("получить_и_удалить", {}),
        ("查询并删除", {}),
        ("検索して削除", {}),
        ("read", {"action": "delete"}),
        ("get_calendar", {"action": "create"}),
        ("show", {"operation": "update"}),
        ("fetch", {"url": "https://a/b", "body": "a=1"}),
        ("fetch", {"url": "https://a/b", "method": "POST"}),
        ("http_request", {"url": "https://a/b"}),
        ("delete_request", {"url": "https://a/b", "method": "GET"}),
        ("evaluate", {"script": "document.forms[0].submit()"}),
        ("get_rows", {"code": "open('a', 'w').write('x')"}),
        ("get_rows", {"query": "mutation { a }"}),
        ("run_query", {"query": "select delete_user(1)"}),
        ("str_replace_editor", {"command": "insert", "path": "a.py"}),
        ("bash", {"command": 7}),
        ("get_order", {"note": "x" * 9_000}),
    ],
)
def test_a_tool_that_is_not_known_to_read_counts_as_a_change(name: str, arguments: Any) -> None:
    assert not call_reads(name, arguments)
    assert call_reads(name, arguments, Tools(reading=[name]))


def test_what_a_tool_declares_comes_before_the_users_lists() -> None:
    tools = Tools(reading=("ship",), changing=("peek",)).with_declared(("peek",), ("ship",))

    assert call_reads("peek", {}, tools)
    assert not call_reads("ship", {}, tools)


def test_a_step_of_which_one_call_changes_something_is_a_change() -> None:
    get, cancel = Call("get_order", "{}"), Call("cancel_order", "{}")

    for calls, changed in (
        ((get, cancel), True),
        ((cancel, get), True),
        ((get, get), False),
    ):
        step = Step(number=1, action="", observation="", tokens=9, calls=calls)
        assert changes(step) is changed


def test_in_a_world_of_rooms_looking_and_thinking_change_nothing() -> None:
    for action in ("look at shelf 2", "inventory", "search[Paris]", "think: put it back; then go"):
        assert text_reads(action)
    for action in ("put apple 1 in/on shelf 2", "buy[now]", "go to shelf 2", "look; rm a"):
        assert not text_reads(action)
    assert not text_reads("think: done\nput apple 1 in/on shelf 2")
    assert not text_reads("look\nput apple 1 in/on shelf 2")


@pytest.mark.parametrize(
    "action",
    [
        "```\na\n```\nor\n```\nb\n```",
        "```bash\na\n```\n```bash\nb\n```",
        "```\na\n```\n<code>\nb\n</code>",
        "ls; " * 3_000,
    ],
)
def test_where_several_blocks_could_be_the_command_none_is_taken(action: str) -> None:
    assert only_command(action) == ""
