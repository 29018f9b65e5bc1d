import json
import os
import subprocess
import sys

import pytest

from tests.cli.conftest import Run, Write, chat


def test_legal_messages_exit_with_0(run: Run, write: Write) -> None:
    result = run("validate", write(chat(2)))

    assert result.exit_code == 0
    assert result.stdout == "legal: 6 messages, openai\n"


def test_a_broken_rule_has_its_code_its_place_and_the_providers_words(run: Run) -> None:
    result = run("validate", input=json.dumps(chat(2)[:-1]))

    assert result.exit_code == 1
    assert result.stdout.startswith("O1 at message 4: An assistant message with 'tool_calls' must")
    assert "call_2" in result.stdout


def test_rules_of_some_models_are_listed_only_when_asked_for(run: Run) -> None:
    raw = json.dumps([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])

    assert run("validate", input=raw).exit_code == 0
    strict = run("validate", "--strict", input=raw)
    assert strict.exit_code == 1
    assert "(some models only)" in strict.stdout


def test_text_and_single_messages_are_counted_in_words(run: Run) -> None:
    assert (
        run("validate", input="[USER] hi [ASSISTANT] look").stdout == "legal: a text, transcript\n"
    )
    one = json.dumps([{"role": "user", "content": "a"}])
    assert run("validate", input=one).stdout == "legal: 1 message, openai\n"


def test_the_format_can_be_one_that_only_has_rules(run: Run) -> None:
    contents = [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}]
    result = run("validate", input=json.dumps({"contents": contents}))
    assert result.exit_code == 1
    assert result.stdout.startswith("G")

    assert run("validate", "--format", "mistral", input=json.dumps(chat(2))).exit_code == 0


def test_answers_to_calls_that_the_provider_keeps_are_not_held_against_a_body(run: Run) -> None:
    items = [{"type": "function_call_output", "call_id": "c1", "output": "ok"}]

    assert run("validate", input=json.dumps({"input": items})).exit_code == 1
    kept = {"input": items, "previous_response_id": "resp_1"}
    assert run("validate", input=json.dumps(kept)).exit_code == 0


def test_what_cannot_be_read_exits_with_2(run: Run, write: Write) -> None:
    assert run("validate", input="just words").exit_code == 2
    assert run("validate", write({"a": 1})).exit_code == 2


def test_what_would_steer_a_terminal_is_not_printed(run: Run) -> None:
    messages = chat(1)[:-1]
    messages[2]["tool_calls"][0]["id"] = "\x1b[2Jcall"

    assert "\x1b" not in run("validate", input=json.dumps(messages)).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
def test_on_a_terminal_the_rules_are_a_table(write: Write) -> None:
    messages = [*chat(2)[:-1], {"content": "whose?"}]
    out = on_a_terminal("validate", write(messages))

    assert "illegal: 6 messages, openai" in out
    assert "what the provider says" in out
    assert "4 assistant" in out
    assert "O1" in out


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
def test_on_a_terminal_a_rule_about_the_system_prompt_says_so(write: Write) -> None:
    body = {
        "system": [{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert "system" in on_a_terminal("validate", write(body))


def on_a_terminal(*arguments: str) -> str:
    """Return what `agora` prints to a terminal, without its colours."""
    import pty

    from rich.text import Text

    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "agora.cli", *arguments],
        stdout=follower,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(follower)
    pieces = []
    try:
        while piece := os.read(leader, 65_536):
            pieces.append(piece)
    except OSError:  # the other end is closed
        pass
    os.close(leader)
    assert child.wait() == 1
    return Text.from_ansi(b"".join(pieces).decode().replace("\r\n", "\n")).plain
