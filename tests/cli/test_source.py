import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click import ClickException

from agora.cli.source import Unreadable, read_source
from agora.logs import Tally, read_logs
from tests.cli.conftest import Run, Write, chat

FIXTURES = Path(__file__).parents[1] / "logs" / "fixtures"
SWE_AGENT: dict[str, Any] = {
    "environment": "test",
    "history": [
        {"role": "system", "content": "You fix code.", "agent": "main"},
        {"role": "user", "content": "Fix it.", "agent": "main"},
        {
            "role": "assistant",
            "content": "I look.",
            "thought": "I look.",
            "action": "ls",
            "tool_calls": [
                {"id": f"c{n}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
                for n in (1, 2)
            ],
        },
        {"role": "tool", "content": "a.py", "agent": "main", "tool_call_ids": ["c1", "c2"]},
    ],
}


def test_a_log_of_several_asks_which_and_gives_the_one_asked_for(write: Write) -> None:
    path = write([{"task_id": n, "reward": 0.0, "traj": chat(n + 1)} for n in range(3)])

    with pytest.raises(
        Unreadable, match=r"request\.json: holds 3 trajectories.*--index 0 to 2, or as .*json#0"
    ):
        read_source(path)
    with pytest.raises(Unreadable, match="has no trajectory 3; it holds 0 to 2"):
        read_source(path, log_index=3)
    source = read_source(path, log_index=1)
    assert source.request.messages == chat(2)
    assert source.place == "trajectory #1 of 3"
    assert json.loads(source.written(chat(2))) == chat(2)
    assert read_source(f"{path}#1").request == source.request
    assert read_source(f"{path}#1", log_index=2).request.messages == chat(3)


def test_a_log_of_one_needs_no_index(write: Write) -> None:
    assert read_source(write([{"traj": chat(1)}])).request.messages == chat(1)
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
    result = run("validate", path)
    assert result.exit_code == 0
    assert "1 record could not be read: log.jsonl:2 is not JSON" in result.stderr


LOGS = [path for path in sorted(FIXTURES.iterdir()) if path.suffix != ".md"]


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_every_command_reads_what_replay_reads(run: Run, log: Path) -> None:
    tally = Tally()
    last = list(read_logs([log], tally))[-1]
    at = tally.recordings - 1

    source = read_source(str(log), log_index=at)
    assert (source.request.messages, source.request.model) == (last.messages, last.model)
    for command in ("explain", "compress", "validate"):
        assert run(command, f"{log}#{at}").exit_code == 0
    beyond = run("validate", str(log), "--index", str(at + 1))
    assert beyond.exit_code == 2
    assert f"has no trajectory {at + 1}" in beyond.stderr


def test_a_packed_log_and_one_that_is_piped_in_are_read(run: Run, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"traj": chat(n)}) + "\n" for n in (1, 2)).encode()
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(lines))

    assert read_source(f"{packed}#1").request.messages == chat(2)
    for data in (lines, gzip.compress(lines)):
        result = run("validate", "-", "--index", "1", input=data)
        assert result.stdout == "legal: 6 messages, openai\n"


def test_a_log_without_a_trajectory_says_why(write: Write) -> None:
    runs: list[dict[str, Any]] = [
        {"id": n, "run_type": "tool", "inputs": {}, "trace_id": "t"} for n in (1, 2)
    ]
    with pytest.raises(Unreadable, match=r"no trajectory: the run is no call of a model \(2\)"):
        read_source(write(runs))
    with pytest.raises(Unreadable, match=r"that can be read: log\.json:1 holds no action"):
        read_source(write({"history": [{"role": "user", "content": "x"}]}, "log.json"))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("gemini-9-pro-preview", "No price sheet for gemini-9-pro-preview: priced as the family"),
        ("nobody-knows", "No price sheet for nobody-knows or its family"),
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
        assert "No price sheet" not in run(command, path, "--schedule", "every-call").stderr


def test_a_swe_agent_log_becomes_messages_that_a_provider_takes(run: Run, write: Write) -> None:
    path = write(SWE_AGENT, "one.traj")
    source = read_source(path)

    assert run("validate", path).exit_code == 0
    assert [sorted(m) for m in source.request.messages[:2]] == [["content", "role"]] * 2
    assert [m["tool_call_id"] for m in source.request.messages[3:]] == ["c1", "c2"]
    assert source.request.observations is None
    assert source.own is None


def test_a_swe_agent_that_acts_by_text_observes_what_the_user_role_says(write: Write) -> None:
    history = [m for m in SWE_AGENT["history"] if m["role"] in ("system", "user")]
    history.append({"role": "assistant", "content": "I look.", "action": "ls"})

    assert read_source(write({"history": history}, "one.traj")).request.observations == "user"


@pytest.mark.parametrize("history", ["text", [1], None])
def test_a_history_of_another_shape_is_refused_or_left_to_the_rules(
    run: Run, write: Write, history: Any
) -> None:
    assert run("validate", write({"history": history}, "one.traj")).exit_code in (1, 2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "is empty"),
        ("just words", "neither role marks nor ReAct lines"),
        ('{"messages": [', "as JSON it fails: Expecting value"),
        ("[" * 100_000, "as JSON it fails"),
        ({"id": 1, "output": 2}, "found an object with id, output"),
        ({}, "found an empty object"),
        ({f"key_{n}": n for n in range(20)}, "key_7, …"),
        (17, "found an integer"),
        ([{"task": 1, "trace": ""}], "odd.json:1 has an empty trace"),
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
        read_source(write({"messages": chat(1)}), log_index=0)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_json_is_read_in_every_encoding_it_comes_in(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(chat(1)), encoding=encoding)

    assert read_source(str(path)).request.messages == chat(1)


def test_a_json_string_is_a_text_prompt_and_stays_a_json_string(write: Write) -> None:
    source = read_source(write('"[USER] hi [ASSISTANT] look"'))

    assert source.request.format == "transcript"
    assert source.written("x") == b'"x"\n'


def test_messages_without_a_role_are_left_to_the_rules(run: Run) -> None:
    result = run("validate", input=json.dumps([{"content": "whose?"}]))

    assert result.exit_code == 1
    assert result.stdout.startswith("S3")
