import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from harness.agents.record import read_requests
from harness.agents.repository import FILES, make_repository, source_files
from harness.agents.rules import refusal, signature
from harness.agents.script import DONE
from harness.agents.stage import Provider, Tap, offered
from harness.agents.wire import Json

SCHEMA = {"type": "object", "properties": {"file_path": {"type": "string"}}}
STEPS = 3
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
Ask = Callable[[str, Json], Awaitable[tuple[int, Any]]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return make_repository(tmp_path_factory.mktemp("repository"))


async def _serving(handler: Any) -> TestServer:
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{rest:.*}", handler)
    server = TestServer(app)
    await server.start_server()
    return server


def talk(provider: Provider, dialogue: Callable[[Ask], Awaitable[None]], folder: Path) -> None:
    """Hold a dialogue with a provider, through a tap, on loopback."""

    async def run() -> None:
        async with aiohttp.ClientSession() as client:
            served = await _serving(provider.answer)
            tap = await _serving(Tap(str(served.make_url("")).rstrip("/"), folder, client).hand_on)

            async def ask(path: str, body: Json) -> tuple[int, Any]:
                headers = {"x-api-key": "sk-ant-madeup"}
                async with client.post(tap.make_url(path), json=body, headers=headers) as answer:
                    text = await answer.text()
                    streamed = answer.content_type == "text/event-stream"
                    return answer.status, text if streamed else json.loads(text)

            try:
                await dialogue(ask)
            finally:
                await tap.close()
                await served.close()

    asyncio.run(run())


def anthropic_turn(body: Json, answer: Json) -> None:
    uses = [block for block in answer["content"] if block["type"] == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": use["id"], "content": "text " * 3_000}
        for use in uses
    ]
    body["messages"] += [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": results},
    ]


def test_a_session_reads_one_file_per_step_and_ends(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    provider = Provider(files, STEPS, tmp_path / "provider")
    body: Json = {
        "model": "claude-sonnet-4-5",
        "tools": [{"name": "Read", "input_schema": SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 1_024},
        "messages": [{"role": "user", "content": "Go."}],
    }
    read: list[str] = []

    async def dialogue(ask: Ask) -> None:
        for _ in range(STEPS):
            status, answer = await ask(PATHS["messages"], body)
            assert status == 200
            thought = answer["content"][0]
            assert thought["signature"] == signature(thought["thinking"])
            read.extend(b["input"]["file_path"] for b in answer["content"] if "input" in b)
            anthropic_turn(body, answer)
        _, answer = await ask(PATHS["messages"], body)
        assert answer["content"][-1]["text"] == DONE

    talk(provider, dialogue, tmp_path / "agent")

    assert read[:STEPS] == [str(path) for path in files[:STEPS]]
    assert len(read_requests(tmp_path / "agent")) == STEPS + 1
    sent, arrived = read_requests(tmp_path / "agent"), read_requests(tmp_path / "provider")
    assert [one.body for one in sent] == [one.body for one in arrived]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ["messages", "chat", "responses"])
def test_a_provider_streams_what_it_would_say_at_once(
    route: str, stream: bool, files: tuple[Path, ...], tmp_path: Path
) -> None:
    provider = Provider(files, STEPS, tmp_path / "provider")
    function = {"name": "read_file", "parameters": SCHEMA, "input_schema": SCHEMA}
    tool = {"type": "function", "function": function, **function}
    said = [{"role": "user", "content": "Go."}]
    body = {"model": "gpt-5", "tools": [tool], "messages": said, "input": said, "stream": stream}

    async def dialogue(ask: Ask) -> None:
        status, answer = await ask(PATHS[route], body)
        text = answer if stream else json.dumps(answer)
        assert status == 200
        assert files[0].name in text
        assert "read_file" in text

    talk(provider, dialogue, tmp_path / "agent")


def test_a_gemini_session_is_answered(files: tuple[Path, ...], tmp_path: Path) -> None:
    provider = Provider(files, STEPS, tmp_path / "provider")
    declared = {"name": "read_file", "parametersJsonSchema": SCHEMA}
    said = {"role": "user", "parts": [{"text": "Go."}]}
    body = {"contents": [said], "tools": [{"functionDeclarations": [declared]}]}

    async def dialogue(ask: Ask) -> None:
        status, answer = await ask("/v1beta/models/gemini-2.5-pro:generateContent", body)
        content = answer["candidates"][0]["content"]
        response = {"functionResponse": {"name": "read_file", "response": {}}}
        history = [said, content, {"role": "user", "parts": [response]}]
        assert status == 200
        assert refusal("gemini", {"contents": history}) == ""

    talk(provider, dialogue, tmp_path / "agent")


def test_an_illegal_request_is_refused_and_recorded_with_the_reason(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    provider = Provider(files, STEPS, tmp_path / "provider")

    async def dialogue(ask: Ask) -> None:
        status, answer = await ask(PATHS["messages"], {"model": "claude-opus-5", "messages": []})
        assert status == 400
        assert answer["error"]["type"] == "invalid_request_error"

    talk(provider, dialogue, tmp_path / "agent")

    (request,) = read_requests(tmp_path / "provider")
    assert "at least one message" in request.verdict


def test_what_was_sent_before_is_read_from_the_cache(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    provider = Provider(files, STEPS, tmp_path / "provider")
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "word " * 4_000}]}
    spent: list[int] = []

    async def dialogue(ask: Ask) -> None:
        for _ in range(2):
            _, answer = await ask(PATHS["chat"], body)
            spent.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])

    talk(provider, dialogue, tmp_path / "agent")

    assert spent[0] == 0
    assert spent[1] > 4_500


def test_a_request_without_tools_does_not_advance_the_session(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    provider = Provider(files, STEPS, tmp_path / "provider")
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "A title, please."}]}

    async def dialogue(ask: Ask) -> None:
        await ask(PATHS["chat"], body)

    talk(provider, dialogue, tmp_path / "agent")

    assert provider.sessions["sk-ant-madeup"].step == 0


def test_tools_are_found_in_the_input_and_in_namespaces() -> None:
    inner = {"type": "function", "name": "exec_command", "parameters": {}}
    item = {"type": "additional_tools", "tools": [{"type": "namespace", "tools": [inner]}]}

    assert set(offered("responses", {"input": [item]})) == {"exec_command"}


def test_the_repository_is_the_same_for_the_same_seed(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    again = make_repository(tmp_path / "again")

    assert len(files) == FILES
    assert source_files(tmp_path / "again") == again
    assert [path.read_bytes() for path in files] == [path.read_bytes() for path in again]
