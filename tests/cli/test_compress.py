import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agora
from harness.histories import sample
from tests.cli.conftest import EVERY_CALL, Run, Write, chat

TRANSCRIPT = "[SYSTEM] Be brief. [USER] Find the key. " + "".join(
    f"[ASSISTANT] open box {n} [USER] box {n} holds " + "a coin and a coin " * 30
    for n in range(1, 12)
)


def test_a_body_keeps_its_shape_and_all_that_stands_beside_the_messages(
    run: Run, write: Write
) -> None:
    body = {"model": "gpt-5-mini", "temperature": 0.5, "messages": chat(12)}
    result = run("compress", *EVERY_CALL, write(body))

    out = json.loads(result.stdout)
    assert result.exit_code == 0
    assert {**out, "messages": body["messages"]} == body
    assert len(out["messages"]) < len(chat(12))
    assert agora.validate(out["messages"], format="openai") == []


def test_bare_messages_come_out_as_bare_messages_and_the_account_on_stderr(run: Run) -> None:
    result = run("compress", *EVERY_CALL, input=json.dumps(chat(12)))

    assert isinstance(json.loads(result.stdout), list)
    assert "of 12 steps kept" in result.stderr
    assert "tokens" in result.stderr


def test_the_command_gives_what_the_library_gives(run: Run, write: Write) -> None:
    options = ("--keep-ratio", "0.4", "--scorer", "recency", "--pin", "2")
    result = run("compress", *EVERY_CALL, write(chat(12)), *options)

    compressor = agora.Compressor(
        edits="every_call",
        budget=agora.Budget(keep_ratio=0.4),
        scorer=_recency(),
    )
    assert json.loads(result.stdout) == compressor.compress(chat(12), pins=[2]).messages


@pytest.mark.parametrize("scorer", ["bm25", "recency"])
def test_every_name_is_a_scorer(run: Run, write: Write, scorer: str) -> None:
    result = run("compress", *EVERY_CALL, write(chat(12)), "--scorer", scorer)

    compressor = agora.Compressor(edits="every_call", scorer=agora.load_scorer(scorer))
    assert json.loads(result.stdout) == compressor.compress(chat(12)).messages


def test_a_scorer_that_is_not_there_is_a_usage_error(run: Run, write: Write) -> None:
    result = run("compress", write(chat(12)), "--scorer", "bn25")

    assert result.exit_code == 2
    assert "did you mean bm25" in result.stderr


def _recency() -> Any:
    from agora.scorers import RecencyScorer

    return RecencyScorer()


def test_a_transcript_comes_out_as_text(run: Run, write: Write) -> None:
    result = run("compress", *EVERY_CALL, write(TRANSCRIPT, "prompt.txt"))

    assert result.stdout == agora.Compressor(edits="every_call").compress(TRANSCRIPT).messages
    assert result.stdout.startswith("[SYSTEM] Be brief.")
    assert len(result.stdout) < len(TRANSCRIPT)


@pytest.mark.parametrize("raw", ['{"messages" :[{"role":"user","content":"h\\u0069"}],\n "x":1.0}'])
def test_what_is_not_changed_comes_out_byte_for_byte(run: Run, raw: str) -> None:
    result = run("compress", *EVERY_CALL, input=raw)

    assert result.stdout_bytes == raw.encode()
    assert result.stderr.startswith("unchanged")


def test_a_body_whose_earlier_messages_are_with_the_provider_is_not_touched(run: Run) -> None:
    items = [
        {"type": "function_call_output", "call_id": f"c{n}", "output": "long " * 200}
        for n in range(20)
    ]
    raw = json.dumps({"model": "m", "previous_response_id": "resp_1", "input": items}, indent=1)
    result = run("compress", *EVERY_CALL, input=raw)

    assert result.stdout == raw
    assert result.stderr.startswith("unchanged: ")
    assert result.stderr.endswith("server side history\n")


def test_illegal_messages_come_out_as_they_are_with_the_reason(run: Run, write: Write) -> None:
    path = write(chat(12)[:-1])

    result = run("compress", *EVERY_CALL, path)
    assert result.stdout == Path(path).read_text()
    assert "illegal input" in result.stderr
    assert "call_12" in result.stderr


@pytest.mark.parametrize("name", ["gemini", "bedrock"])
def test_a_body_of_gemini_or_bedrock_comes_back_shorter_and_otherwise_the_same(
    run: Run, name: str
) -> None:
    history = max(sample(name, 40), key=lambda history: history.steps)
    field = "contents" if name == "gemini" else "messages"
    extra: dict[str, object] = (
        {"generationConfig": {}} if name == "gemini" else {"inferenceConfig": {}}
    )
    if name == "bedrock":
        extra["toolConfig"] = {"tools": [{"toolSpec": {"name": "look"}}]}
    body = {field: history.messages, **extra}

    result = run("compress", *EVERY_CALL, input=json.dumps(body))

    shorter = json.loads(result.stdout)
    assert len(json.dumps(shorter[field])) < len(json.dumps(history.messages))
    assert shorter | {field: []} == body | {field: []}


def test_text_in_any_script_stays_as_it_was_even_half_a_surrogate_pair(run: Run) -> None:
    messages = chat(12)
    messages[1]["content"] = "鍵を見つけて"
    assert "鍵を見つけて" in run("compress", *EVERY_CALL, input=json.dumps(messages)).stdout

    messages[1]["content"] = "half \ud83d"
    out = json.loads(run("compress", *EVERY_CALL, input=json.dumps(messages)).stdout)
    assert out[1]["content"].startswith("half \ud83d")


def test_an_agent_that_acts_by_text_needs_to_be_told_what_its_observations_are(run: Run) -> None:
    messages = [{"role": "user", "content": "Find it."}]
    for n in range(12):
        messages.append({"role": "assistant", "content": f"open box {n}"})
        messages.append({"role": "user", "content": f"box {n} is shut " * 30})
    raw = json.dumps(messages)

    assert run("compress", *EVERY_CALL, input=raw).stdout == raw
    assert len(run("compress", *EVERY_CALL, "--observations", "user", input=raw).stdout) < len(raw)


def test_a_pin_beyond_the_last_step_is_pointed_out(run: Run, write: Write) -> None:
    result = run("compress", *EVERY_CALL, write(chat(12)), "--pin", "99")

    assert result.exit_code == 2
    assert "--pin 99: there is no such step; the steps are 1 to 12" in result.stderr


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(raw=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_whatever_is_given_there_is_an_answer_and_never_a_traceback(run: Run, raw: bytes) -> None:
    for command in ("compress", "explain"):
        result = run(command, input=raw)

        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert result.exit_code in (0, 1, 2)


def _agora(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "agora.cli", *arguments], capture_output=True, check=False, **options
    )


def test_the_program_reads_a_pipe_and_writes_a_pipe() -> None:
    done = _agora("compress", "-", *EVERY_CALL, input=json.dumps(chat(12)).encode())

    assert done.returncode == 0
    assert agora.validate(json.loads(done.stdout), format="openai") == []
    assert b"steps kept" in done.stderr


def test_without_the_extra_the_program_names_it(tmp_path: Path) -> None:
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich" / "__init__.py").write_text("raise ImportError('absent')\n")
    done = _agora("--version", env={**os.environ, "PYTHONPATH": str(tmp_path)})

    assert done.returncode == 1
    assert done.stderr.decode().split("\n") == [
        "agora needs an extra: pip install '.[cli]' (in a checkout)",
        "",
    ]
