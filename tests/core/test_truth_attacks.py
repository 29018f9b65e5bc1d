"""Results and calls of which something wrong was said once."""

import json
from typing import Any

import pytest

from agora.core.reading.actions import call_reads
from agora.core.reading.observation import outcome
from agora.core.trajectory import Call, Result

WENT_WELL = ("ok", "exit 0")


@pytest.mark.parametrize(
    "text",
    [
        '{"exit_code": 0, "error": "no such user"}',
        '{"exit_code": 0, "isError": true}',
        '{"exitCode": 0, "stderr": "fatal: x", "success": false}',
        '{"result": {"exit_code": 0}, "metadata": {"exit_code": 1}}',
        '{"exit_code": "0", "signal": "SIGKILL"}',
        '{"exit_code": 0, "timed_out": true}',
        "fatal: not a git repository\nexit 0",
        "#!/bin/sh\nrm -f x\nexit 0",
        "Error: tool crashed\n\nlast log:\nProcess exited with code 0",
    ],
)
def test_a_code_0_beside_an_error_is_no_sign_that_it_went_well(text: str) -> None:
    assert outcome(Result(text)).said not in WENT_WELL


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\nset -e\nexit 1",
        "error: none",
        '{"error": 0.0}',
        '{"error": 0.02, "model": "linear"}',
        '{"status": 500, "title": "Room 500"}',
        '{"status": 410, "description": "weight in grams"}',
        '{"code": 451, "title": "Fahrenheit 451"}',
        '{"id": 1, "result": "error", "description": "an entry of a log"}',
        '{"student": "x", "status": "fail", "message": "exam of May"}',
        "1 failed login in 3 s",
        "bash: the GNU shell",
    ],
)
def test_what_a_result_is_about_is_not_how_its_call_went(text: str) -> None:
    assert not outcome(Result(text)).failed


@pytest.mark.parametrize(
    "command",
    [
        ["deploy", "-c", "ls"],
        "curl -sXPOST https://a/b",
        "curl -so page.html https://a/b",
        "curl -sSLO https://a/b.tgz",
        "git diff --output=x.patch",
        "tar xJf a.tar.xz",
        "find . -fprint0 names",
        "date -s 2020-01-01",
        "hostname other",
        "uniq names sorted",
        "xxd -r dump binary",
        "history -c",
        "ss -K dst 10.0.0.1",
        "tree -o listing",
        "go env -w GOFLAGS=-mod=mod",
        "mypy --install-types",
        "pytest --snapshot-update",
        "python -m json.tool a.json b.json",
        "rg --pre rm key",
        "docker compose config -o all.yaml",
        "helm template . --output-dir made",
        "terraform plan -out=plan",
        "psql -c 'select pg_terminate_backend(1)'",
    ],
)
def test_a_command_that_can_write_is_not_known_to_read_where_it_does(command: object) -> None:
    assert not call_reads(Call("bash", json.dumps({"command": command})))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("obtener_y_borrar", {}),
        ("buscar_reemplazar", {}),
        ("suchen_und_ersetzen", {}),
        ("lesen_schreiben", {}),
        ("查询并删除", {}),
        ("検索して削除", {}),
        ("получить_и_удалить", {}),
        ("getAndIncrement", {}),
        ("read", {"action": "delete"}),
        ("get_calendar", {"action": "create"}),
        ("show", {"operation": "update"}),
        ("fetch", {"url": "https://a/b", "body": "a=1"}),
        ("evaluate", {"script": "document.forms[0].submit()"}),
        ("run_query", {"query": "select delete_user(1)"}),
    ],
)
def test_a_tool_that_reads_and_changes_something_is_not_known_to_read(
    name: str, arguments: dict[str, Any]
) -> None:
    assert not call_reads(Call(name, json.dumps(arguments, ensure_ascii=False)))


def test_words_given_one_by_one_are_the_command_that_a_shell_is_told_to_run() -> None:
    reads, writes = (
        Call("shell", json.dumps({"command": ["bash", "-lc", said]})) for said in ("ls", "rm a")
    )
    plain = Call("shell", json.dumps({"command": ["ls", "-l", "a b"]}))

    assert call_reads(reads)
    assert call_reads(plain)
    assert not call_reads(writes)
