import asyncio
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.server.mcpserver", reason="MCP 2 has an environment of its own")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from agora.compressor import Compressor
from agora.integrations.mcp import recall_server
from agora.integrations.wire import call
from agora.testing import sample
from tests.docs.pages import blocks
from tests.integrations.frameworks import ROOT

Message = dict[str, Any]


def conversation(steps: int = 9) -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": "Find the key."}]
    for n in range(1, steps + 1):
        made = call(f"c{n}", "read", f'{{"name": "room_{n}"}}')
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        text = f"room {n} has a chest " * 40
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return messages


async def recalled(server: Any, step: int) -> str:
    async with Client(server) as client:
        [tool] = (await client.list_tools()).tools
        assert tool.name == "agora_recall"
        answer = await client.call_tool("agora_recall", {"step": step})
        assert not answer.is_error
        return str(answer.content[0].text)


def test_an_elided_step_comes_back_in_full() -> None:
    messages = conversation()
    compression = Compressor(schedule="every_call").compress(messages)
    elided = [d.number for d in compression.decisions if d.outcome == "elided"]

    text = asyncio.run(recalled(recall_server(lambda: messages), elided[0]))

    assert messages[2 * elided[0]]["content"] in text
    assert messages[2 * elided[0]]["content"] not in str(compression.messages)


def test_a_call_that_waits_for_its_answer_does_not_stand_in_the_way() -> None:
    messages = conversation(3)
    made = call("c9", "agora_recall", '{"step": 1}')
    messages.append({"role": "assistant", "content": None, "tool_calls": [made]})

    assert "room 1 has" in asyncio.run(recalled(recall_server(lambda: messages), 1))


def test_a_step_that_is_not_there_is_answered_in_words() -> None:
    text = asyncio.run(recalled(recall_server(lambda: conversation(3)), 7))

    assert "the steps are 1 to 3" in text


def test_a_file_that_is_not_there_is_answered_in_words(tmp_path: Path) -> None:
    text = asyncio.run(recalled(recall_server(tmp_path / "none.json"), 1))

    assert "step 1 cannot be shown" in text


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic"])
def test_every_step_of_any_format_can_be_recalled(format: str) -> None:
    for history in sample(format, 20, seed=7):
        for step in range(1, history.steps + 1):
            text = asyncio.run(recalled(recall_server(partial(getattr, history, "messages")), step))
            assert text.startswith(f"step {step}\n")
            break


def test_it_runs_as_a_command(tmp_path: Path) -> None:
    file = tmp_path / "conversation.json"
    file.write_text(json.dumps({"model": "m", "messages": conversation(4)}))
    arguments = ["-m", "agora.integrations.mcp", str(file)]
    command = StdioServerParameters(command=sys.executable, args=arguments)

    assert "room 2 has" in asyncio.run(recalled(stdio_client(command), 2))


def ran(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_brings_an_elided_step_back() -> None:
    said = ran(str(ROOT / "examples" / "integrations" / "with_mcp.py"))

    summary, step, first = said.splitlines()[:3]
    assert "9 steps kept" in summary
    assert step.startswith("step ")
    assert "look" in first


def test_the_program_of_the_page_runs() -> None:
    [program] = [
        block.text
        for block in blocks(ROOT / "docs" / "integrations" / "mcp.md")
        if block.language == "python"
    ]

    assert "a key lies here" in ran("-c", program)
