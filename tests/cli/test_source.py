import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click import ClickException

# Private: any file as a source: what is read, before a command prints it.
from agora.cli.source import Unreadable, read_source
from agora.logs import Tally, read_logs
from tests.cli.conftest import Run, Write, chat

FIXTURES = Path(__file__).parents[1] / "logs" / "fixtures"


def logged(number: int) -> dict[str, Any]:
    """Return a logged call of a conversation of its own."""
    messages = [{"role": "user", "content": f"Task {number}."}, *chat(number + 1)[2:]]
    return {"model": "gpt-5", "messages": messages}


def test_a_log_of_several_asks_which_and_gives_the_one_asked_for(write: Write) -> None:
    path = write([logged(n) for n in range(3)])

    with pytest.raises(Unreadable, match=r"request\.json: holds 3 trajectories.*json#0 to #2"):
        read_source(path)
    with pytest.raises(Unreadable, match="has no trajectory 3; it holds 0 to 2"):
        read_source(f"{path}#3")
    source = read_source(f"{path}#1")
    assert source.request.messages == logged(1)["messages"]
    assert source.place == "trajectory #1 of 3"
    assert json.loads(source.written(chat(2))) == chat(2)


def test_a_log_of_one_needs_no_index(write: Write) -> None:
    assert read_source(write([chat(1)])).request.messages == chat(1)


def test_calls_of_one_conversation_are_one_trajectory_as_for_replay(write: Write) -> None:
    tools = [{"type": "function", "function": {"name": "read_file"}}]
    bodies = [{"model": "gpt-5", "messages": chat(n), "tools": tools} for n in (1, 2, 3)]
    source = read_source(write("\n".join(map(json.dumps, bodies)) + "\n\n", "log.jsonl"))

    assert source.request.messages == chat(3)
    assert source.request.model == "gpt-5"
    assert source.place == "trajectory #0 of 1"
    assert json.loads(source.written([])) == {"model": "gpt-5", "tools": tools, "messages": []}


def test_a_broken_line_is_said_and_the_rest_is_read(run: Run, write: Write) -> None:
    path = write(json.dumps({"messages": chat(1)}) + "\n{oops\n", "log.jsonl")

    assert read_source(path).request.messages == chat(1)
    result = run("compress", path)
    assert result.exit_code == 0
    assert "1 record could not be read: log.jsonl:2 is not JSON" in result.stderr


LOGS = [path for path in sorted(FIXTURES.iterdir()) if path.suffix != ".md"]


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_every_command_reads_what_replay_reads(run: Run, log: Path) -> None:
    tally = Tally()
    last = list(read_logs([log], tally))[-1]
    at = tally.recordings - 1

    source = read_source(f"{log}#{at}")
    assert (source.request.messages, source.request.model) == (last.messages, last.model)
    for command in ("explain", "compress"):
        assert run(command, f"{log}#{at}").exit_code == 0
    beyond = run("compress", f"{log}#{at + 1}")
    assert beyond.exit_code == 2
    assert f"has no trajectory {at + 1}" in beyond.stderr


def test_a_packed_log_and_one_that_is_piped_in_are_read(run: Run, tmp_path: Path) -> None:
    lines = "".join(json.dumps(logged(n)) + "\n" for n in (1, 2)).encode()
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(lines))

    assert read_source(f"{packed}#1").request.messages == logged(2)["messages"]
    for data in (lines, gzip.compress(lines)):
        result = run("compress", "--", "-#1", input=data)
        assert json.loads(result.stdout) == logged(2)["messages"]


def test_a_log_without_a_trajectory_says_why(write: Write) -> None:
    failed = [{"request": logged(n), "response": {"error": "overloaded"}} for n in (1, 2)]
    with pytest.raises(Unreadable, match=r"no trajectory: the call failed \(2\)"):
        read_source(write(failed))
    with pytest.raises(Unreadable, match=r"that can be read: log\.json:1 holds no action"):
        read_source(write({"trajectory_format": "mini-swe-agent-1", "messages": []}, "log.json"))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("gemini-9-pro-preview", "No price sheet for gemini-9-pro-preview: priced as the family"),
        ("nobody-knows", "No price sheet for nobody-knows: priced at a placeholder"),
        ("gpt-5", ""),
    ],
)
def test_whose_prices_count_is_said_where_the_model_has_none(
    run: Run, write: Write, model: str, said: str
) -> None:
    path = write({"model": model, "messages": chat(12)})

    for command in ("compress", "explain"):
        assert ("No price sheet" in run(command, path).stderr) == bool(said)
        assert said in run(command, path).stderr
        assert "No price sheet" not in run(command, path, "--model", "gpt-5").stderr
        assert "No price sheet" not in run(command, path, "--edits", "every_call").stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "is empty"),
        ("just words", "no role marks"),
        ('{"messages": [', "as JSON it fails: Expecting value"),
        ("[" * 100_000, "as JSON it fails"),
        ({"id": 1, "output": 2}, "found an object with id, output"),
        ({}, "found an empty object"),
        ({f"key_{n}": n for n in range(20)}, "key_7, …"),
        (17, "found an integer"),
    ],
)
def test_what_was_found_instead_is_said_with_the_files_name(
    write: Write, given: object, said: str
) -> None:
    with pytest.raises(Unreadable) as caught:
        read_source(write(given, "odd.json"))

    assert "odd.json" in caught.value.message
    assert said in caught.value.message
    assert caught.value.exit_code == 2


def test_a_file_that_is_not_there_or_is_no_text_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="cannot be read: No such file"):
        read_source(str(tmp_path / "absent.json"))
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\xff\xfe")
    with pytest.raises(Unreadable, match="is not text"):
        read_source(str(tmp_path / "image.png"))


def test_an_index_into_what_is_no_log_is_refused(write: Write) -> None:
    with pytest.raises(ClickException, match="one request and not a log"):
        read_source(write({"messages": chat(1)}) + "#0")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_json_is_read_in_every_encoding_it_comes_in(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(chat(1)), encoding=encoding)

    assert read_source(str(path)).request.messages == chat(1)


def test_a_json_string_is_a_text_prompt_and_stays_a_json_string(write: Write) -> None:
    source = read_source(write('"[USER] hi [ASSISTANT] look"'))

    assert source.request.format == "transcript"
    assert source.written("x") == b'"x"\n'
