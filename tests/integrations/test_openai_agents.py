import asyncio
import copy
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("agents", reason="the OpenAI Agents SDK has an environment of its own")

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
)
from agents.models.chatcmpl_converter import Converter
from agents.run import CallModelData, ModelInputData
from openai import AsyncOpenAI

import agora
from agora import Session
from agora.integrations.openai_agents import AgoraFilter
from harness.shortened import is_edited
from tests.integrations.conformance import (
    ANSWER,
    MODEL,
    PNG,
    SYSTEM,
    TASK,
    Case,
    Conformance,
    Ran,
    script,
    write_notes,
)
from tests.integrations.loopback import Received, loopback

ITEMS: dict[str, Any] = {}
"""The items behind each chat request, by its messages."""


def record(data: CallModelData[Any]) -> ModelInputData:
    """Note the items of a call; hand them on as they are."""
    items = data.model_data.input
    messages = Converter.items_to_messages(copy.deepcopy(items))
    ITEMS[key(messages)] = copy.deepcopy(items)
    return data.model_data


def key(messages: Any) -> str:
    return json.dumps([m for m in messages if m.get("role") != "system"], sort_keys=True)


def agent_of(case: Case) -> tuple[Agent[Any], AsyncOpenAI]:
    @function_tool
    def read_file(name: str) -> str:
        """Return the text of a file."""
        return case.read_file(name)

    client = AsyncOpenAI(base_url=f"{case.url}/v1", api_key="key", max_retries=0)
    kind = OpenAIResponsesModel if case.endpoint == "responses" else OpenAIChatCompletionsModel
    settings = ModelSettings(store=False) if case.endpoint == "responses" else ModelSettings()
    agent = Agent(
        name="reader",
        instructions=SYSTEM,
        model=kind(model=MODEL, openai_client=client),
        model_settings=settings,
        tools=[read_file],
    )
    return agent, client


class TestOpenAIAgents(Conformance):
    example: ClassVar = "with_openai_agents.py"
    ways: ClassVar[tuple[str, ...]] = (
        "responses/sync",
        "responses/async",
        "responses/stream",
        "openai/async",
        "openai/stream",
    )
    rich: ClassVar[tuple[str, ...]] = ("responses/async", "responses/stream", "openai/async")

    def run(self, case: Case) -> Ran:
        agent, client = agent_of(case)
        filter_ = record if case.compressor is None else AgoraFilter(case.compressor)
        config = RunConfig(call_model_input_filter=filter_, tracing_disabled=True)
        session = SQLiteSession("reader")
        content: Any = TASK
        if case.image:
            image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
            content = [{"type": "input_text", "text": TASK}, {**image, "detail": "auto"}]
        given: Any = [{"role": "user", "content": content}]
        before = copy.deepcopy(given)
        options: Any = {"run_config": config, "max_turns": 30, "session": session}
        options["hooks"] = filter_ if case.compressor else None
        options["run_config"].session_input_callback = lambda old, new: old + new

        async def watch() -> Any:
            if case.call == "async":
                result = await Runner.run(agent, given, **options)
            else:
                result = Runner.run_streamed(agent, given, **options)
                async for _ in result.stream_events():
                    pass
            kept = [await session.get_items(), result.to_input_list()]
            await client.close()
            return result, kept

        if case.call == "sync":
            # Older releases take the thread's loop, which an earlier test may have closed.
            asyncio.set_event_loop(asyncio.new_event_loop())
            result = Runner.run_sync(agent, given, **options)
            kept = [asyncio.run(session.get_items()), result.to_input_list()]
        else:
            result, kept = asyncio.run(watch())
        assert given == before
        savings = agora.savings(filter_) if case.compressor else None
        return Ran(result.final_output, kept, savings=savings)

    def expected(self, before: Received, session: Session) -> Any:
        if before.format == "responses":
            return super().expected(before, session)
        system, *rest = before.messages
        edited = session.compress(
            ITEMS[key(rest)],
            model=MODEL,
            format="responses",
            system=SYSTEM,
            tools=[
                {**t["function"], "type": "function", "strict": True} for t in before.body["tools"]
            ],
        ).messages
        return [system, *Converter.items_to_messages(copy.deepcopy(edited))]


def test_a_conversation_that_the_provider_holds_is_sent_as_it_is(tmp_path: Path) -> None:
    write_notes(tmp_path)
    with loopback(script(thinking=False)) as server:
        case = Case(endpoint="responses", call="async", folder=tmp_path, url=server.url)
        agent, _ = agent_of(case)
        config = RunConfig(call_model_input_filter=AgoraFilter(), tracing_disabled=True)
        options: Any = {"max_turns": 30, "previous_response_id": "resp_0"}
        result = asyncio.run(Runner.run(agent, TASK, run_config=config, **options))

    assert result.final_output == ANSWER
    assert not is_edited([request.messages for request in server.received])
    assert {len(request.messages) for request in server.received[1:]} == {1, 2}
