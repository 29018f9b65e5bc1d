import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from harness.agents.record import Request, read_requests
from harness.agents.repository import make_repository
from harness.agents.stage import Provider
from harness.signing import BETA, Json, Outcome, Signer

STEPS = 12
ELSEWHERE = "The block is bound to a different conversation."
SCHEMA = {"type": "object", "properties": {"file_path": {"type": "string"}}}
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
Ask = Callable[..., Awaitable[tuple[int, Any]]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return make_repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture
def sdk() -> Any:
    """The types of an SDK that knows of bound thinking."""
    reason = "the installed anthropic SDK, if any, does not know `thinking.block_binding`"
    pytest.importorskip("anthropic.types.beta.beta_thinking_block_binding_param", reason=reason)
    import anthropic

    return anthropic


def opening(model: str = "claude-fable-5-1") -> Json:
    return {
        "model": model,
        "max_tokens": 1_024,
        "system": "Be brief.",
        "tools": [{"name": "Read", "input_schema": SCHEMA}],
        "messages": [{"role": "user", "content": "Go."}],
    }


def take_turn(body: Json, content: list[Json]) -> None:
    """Append an answer, and the results of its calls."""
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "text " * 400}
        for block in content
        if block["type"] == "tool_use"
    ]
    body["messages"] += [
        {"role": "assistant", "content": content},
        {"role": "user", "content": results or "And now?"},
    ]


def staged(
    files: tuple[Path, ...],
    folder: Path,
    dialogue: Callable[[Ask], Awaitable[None]],
    outcome: Outcome | None = None,
) -> list[Request]:
    """Hold a dialogue with the provider on loopback, and return what it recorded."""
    provider = Provider(files, STEPS, folder, signer=Signer(outcome))

    async def run() -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{rest:.*}", provider.answer)
        server = TestServer(app)
        await server.start_server()
        async with aiohttp.ClientSession() as client:

            async def ask(body: Json, betas: str = "", path: str = "/v1/messages") -> Any:
                headers = {"x-api-key": "sk-ant-madeup", "anthropic-beta": betas}
                async with client.post(server.make_url(path), json=body, headers=headers) as got:
                    said = await got.text()
                    streamed = got.content_type == "text/event-stream"
                    return got.status, events_in(said) if streamed else json.loads(said)

            ask.url = str(server.make_url("")).rstrip("/")  # type: ignore[attr-defined]
            try:
                await dialogue(ask)
            finally:
                await server.close()

    asyncio.run(run())
    return read_requests(folder)


def events_in(stream: str) -> list[Json]:
    lines = (line for line in stream.splitlines() if line.startswith("data: "))
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.parametrize("stream", [False, True])
def test_the_sdk_itself_holds_a_session_and_reads_what_was_dropped(
    stream: bool, sdk: Any, files: tuple[Path, ...], tmp_path: Path
) -> None:
    body = {**opening(), "thinking": DROPS}
    reports: list[Any] = []

    async def dialogue(ask: Any) -> None:
        client = sdk.AsyncAnthropic(api_key="sk-ant-madeup", base_url=ask.url, max_retries=0)
        for step in range(STEPS):
            if step == 6:
                body["system"] = "Be verbose."
            if stream:
                async with client.beta.messages.stream(**body, betas=[BETA]) as events:
                    message = await events.get_final_message()
            else:
                message = await client.beta.messages.create(**body, betas=[BETA])
            reports.append(message.input_transformations)
            content = [block.to_dict(exclude_none=True) for block in message.content]
            for block in content:
                block.pop("parsed_output", None)
            take_turn(body, content)
        body["thinking"] = {"type": "adaptive"}
        with pytest.raises(sdk.BadRequestError, match=ELSEWHERE):
            await client.beta.messages.create(**body)
        await client.close()

    staged(files, tmp_path, dialogue)

    assert [len(report) for report in reports[:6]] == [0] * 6
    # Six answers came before the change, the fourth with two thoughts; they stay dropped.
    assert [len(report) for report in reports[6:]] == [7] * 6


def test_blocks_and_settings_are_what_botocore_would_send() -> None:
    reason = "botocore is not installed: it holds the types of Bedrock's Converse"
    pytest.importorskip("botocore", reason=reason)
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    found = Loader().load_service_model("bedrock-runtime", "service-2")
    shape = ServiceModel(found).operation_model("Converse").input_shape
    body: Json = {
        "modelId": "us.anthropic.claude-fable-5-1-v1:0",
        "messages": [{"role": "user", "content": [{"text": "Go."}]}],
        "additionalModelRequestFields": {"thinking": DROPS, "anthropic_beta": [BETA]},
    }
    signer = Signer()
    said: list[Json] = [signer.think(body, "Hm.", format="bedrock")]
    said.append(signer.think(body, "Ha.", format="bedrock", before=said, redacted=True))
    body["messages"] += [
        {"role": "assistant", "content": said},
        {"role": "user", "content": [{"text": "Go on."}]},
    ]

    assert not ParamValidator().validate(body, shape).has_errors()
    assert signer.receive(body, format="bedrock").kept == ((1, 0), (1, 1))
