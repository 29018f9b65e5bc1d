import asyncio
import copy
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("litellm.proxy.proxy_server", reason="LiteLLM has an environment of its own")

import httpx
import litellm
import yaml
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server

import agora
from agora import Compressor
from agora.integrations.litellm import AgoraLogger, agora_logger
from harness.shortened import is_edited
from tests.integrations.bound import Bound
from tests.integrations.conformance import (
    ANSWER,
    MODEL,
    Case,
    Conformance,
    Ran,
    script,
    write_notes,
)
from tests.integrations.loop import Body, adrive, drive, events_of, gathered, loop, whole_of
from tests.integrations.loopback import loopback

PATHS = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
}


def provider_of(case: Case) -> Body:
    if case.endpoint == "anthropic":
        return {"model": f"anthropic/{MODEL}", "api_base": case.url, "api_key": "key"}
    return {"model": f"openai/{MODEL}", "api_base": f"{case.url}/v1", "api_key": "key"}


async def counted(steps: Any, ask: Any, history: list[Body], logger: AgoraLogger | None) -> str:
    """Return the answer of a run once LiteLLM, which logs in the background, has logged it."""
    asked = 0

    async def counting(body: Body) -> Body:
        nonlocal asked
        asked += 1
        answer: Body = await ask(body)
        return answer

    answer = await adrive(steps, counting, history)
    deadline = time.monotonic() + 120
    while logger and agora.savings(logger).calls < asked and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return answer


def forget_callbacks() -> None:
    """Remove the loggers of a run: LiteLLM copies them to lists that outlive `callbacks`."""
    litellm.logging_callback_manager._reset_all_callbacks()
    litellm.in_memory_llm_clients_cache.flush_cache()


def dumped(answer: Any) -> Body:
    return dict(answer) if isinstance(answer, dict) else answer.model_dump()


class TestSDK(Conformance):
    """`acompletion`, `aresponses`, `anthropic_messages`, and the helper for `completion`."""

    example: ClassVar = "with_litellm.py"
    ways: ClassVar[tuple[str, ...]] = (
        "openai/async",
        "openai/astream",
        "openai/helper",
        "openai/helper_stream",
        "responses/async",
        "responses/astream",
        "anthropic/async",
        "anthropic/astream",
    )
    rich: ClassVar[tuple[str, ...]] = ("openai/async", "responses/async", "anthropic/async")

    def run(self, case: Case) -> Ran:
        history: list[Body] = []
        steps = loop(case, history)
        provider = provider_of(case)
        stream = "stream" in case.call
        logger = AgoraLogger(case.compressor) if case.compressor else None
        if case.call.startswith("helper"):

            def complete(body: Body) -> Body:
                asked = {**body, **provider, "stream": stream}
                answer = logger.completion(**asked) if logger else litellm.completion(**asked)
                if stream:
                    return whole_of("openai", [piece.model_dump() for piece in answer])
                return dumped(answer)

            answer = drive(steps, complete, history)
            return Ran(answer, history, savings=agora.savings(logger) if logger else None)

        asks: dict[str, Any] = {
            "openai": litellm.acompletion,
            "responses": litellm.aresponses,
            "anthropic": litellm.anthropic_messages,
        }

        async def ask(body: Body) -> Body:
            answer = await asks[case.endpoint](**{**body, **provider, "stream": stream})
            if not stream:
                return dumped(answer)
            if case.endpoint == "anthropic":
                raw = b"".join([piece async for piece in answer]).decode()
                return whole_of("anthropic", events_of(raw))
            return whole_of(case.endpoint, await gathered(answer))

        litellm.callbacks = [logger] if logger else []
        try:
            answer = asyncio.run(counted(steps, ask, history, logger))
            return Ran(answer, history, savings=agora.savings(logger) if logger else None)
        finally:
            forget_callbacks()


class TestProxy(Conformance):
    """The proxy's three routes."""

    ways: ClassVar[tuple[str, ...]] = (
        "openai/plain",
        "openai/stream",
        "anthropic/plain",
        "anthropic/stream",
        "responses/plain",
        "responses/stream",
    )
    rich: ClassVar[tuple[str, ...]] = ("openai/plain", "anthropic/plain", "responses/plain")

    def run(self, case: Case) -> Ran:
        history: list[Body] = []
        steps = loop(case, history)
        config = case.folder.parent / "proxy.yaml"
        served = {"model_name": MODEL, "litellm_params": provider_of(case)}
        config.write_text(yaml.safe_dump({"model_list": [served]}))
        stream = case.call == "stream"

        async def ask(body: Body) -> Body:
            app = httpx.ASGITransport(proxy_server.app)
            async with httpx.AsyncClient(transport=app, base_url="http://proxy") as client:
                asked = {**body, "stream": True} if stream else body
                answer = await client.post(PATHS[case.endpoint], json=asked, timeout=60)
            assert answer.status_code == 200, answer.text
            if stream:
                return whole_of(case.endpoint, events_of(answer.text))
            whole: Body = answer.json()
            return whole

        async def run() -> str:
            await proxy_server.initialize(config=str(config))
            litellm.callbacks = [logger] if logger else []
            return await counted(steps, ask, history, logger)

        logger = AgoraLogger(case.compressor) if case.compressor else None
        try:
            answer = asyncio.run(run())
            return Ran(answer, history, savings=agora.savings(logger) if logger else None)
        finally:
            forget_callbacks()


class TestBoundThinking(Bound):
    """Claude behind chat completions and messages of the SDK, and behind the helper."""

    ways: ClassVar[tuple[str, ...]] = ("openai", "anthropic", "helper")
    # LiteLLM reports an answer in the background. Only a session that has it by the next call knows
    # that the thinking in it is still valid.
    loose: ClassVar[tuple[str, ...]] = ways

    def run(self, case: Case) -> Ran:
        history: list[Body] = []
        endpoint = "openai" if case.call == "helper" else case.call
        steps = loop(replace(case, endpoint=endpoint, thinking=False), history)
        provider = {
            "model": f"anthropic/{case.model}",
            "api_base": case.url,
            "api_key": "key",
            "max_tokens": 2048,
            "num_retries": 0,
        }
        logger = AgoraLogger(case.compressor) if case.compressor else None
        asks: dict[str, Any] = {
            "openai": litellm.acompletion,
            "anthropic": litellm.anthropic_messages,
        }

        async def ask(body: Body) -> Body:
            if case.call == "helper":
                complete = logger.completion if logger else litellm.completion
                return dumped(await asyncio.to_thread(complete, **{**body, **provider}))
            return dumped(await asks[endpoint](**{**body, **provider}))

        litellm.callbacks = [logger] if logger and case.call != "helper" else []
        try:
            answer = asyncio.run(adrive(steps, ask, history))
            # LiteLLM makes up ids for items.
            return Ran(answer, [{k: v for k, v in m.items() if k != "id"} for m in history])
        finally:
            forget_callbacks()


def test_what_was_saved_stands_where_the_dashboard_counts_it(tmp_path: Path) -> None:
    counting = pytest.importorskip(
        "litellm.proxy.spend_tracking.compression_savings", reason="counted since LiteLLM 1.100"
    )
    utils = pytest.importorskip("litellm.proxy.spend_tracking.spend_tracking_utils")
    saved: list[int] = []

    class Spend(CustomLogger):
        async def async_log_success_event(
            self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
        ) -> None:
            row = utils.get_logging_payload(kwargs, response_obj, start_time, end_time)
            saved.append(counting.extract_compression_saved_tokens(yaml.safe_load(row["metadata"])))

    write_notes(tmp_path)
    with loopback(script(thinking=False)) as server:
        case = Case(endpoint="openai", call="async", folder=tmp_path, url=server.url)
        history: list[Body] = []

        async def ask(body: Body) -> Body:
            answer = await litellm.acompletion(**{**body, **provider_of(case)})
            await asyncio.sleep(0.1)
            return dumped(answer)

        async def run() -> str:
            answer = await adrive(loop(case, history), ask, history)
            await asyncio.sleep(1)
            return answer

        litellm.callbacks = [AgoraLogger(Compressor()), Spend()]
        try:
            assert asyncio.run(run()) == ANSWER
        finally:
            litellm.callbacks = []

    assert len(saved) == len(server.received)
    assert sum(count > 1_000 for count in saved) >= 3


def test_a_callers_metadata_is_not_taken_for_that_of_another_call(tmp_path: Path) -> None:
    write_notes(tmp_path)
    metadata = {"project": "notes"}
    with loopback(script(thinking=False)) as server:
        case = Case(endpoint="openai", call="async", folder=tmp_path, url=server.url)
        history: list[Body] = []

        async def ask(body: Body) -> Body:
            asked = {**body, **provider_of(case), "metadata": metadata}
            return dumped(await litellm.acompletion(**asked))

        litellm.callbacks = [AgoraLogger()]
        try:
            asyncio.run(adrive(loop(case, history), ask, history))
        finally:
            litellm.callbacks = []

    assert sum(is_edited(str(request.messages)) for request in server.received) >= 3


def test_a_proxys_configuration_file_can_name_the_callback(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    line = "from agora.integrations.litellm import agora_logger\n"
    (tmp_path / "agora_callback.py").write_text(line)
    settings = {"callbacks": ["agora_callback.agora_logger"]}
    config.write_text(yaml.safe_dump({"model_list": [], "litellm_settings": settings}))
    before = copy.copy(litellm.callbacks)
    try:
        asyncio.run(proxy_server.initialize(config=str(config)))
        assert agora_logger in litellm.callbacks
    finally:
        litellm.callbacks = before
