import asyncio
import base64
import copy
from typing import Any, ClassVar

import pytest

pytest.importorskip("strands", reason="Strands has an environment of its own")

import boto3
from botocore.config import Config
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import BedrockModel
from strands.models.openai import OpenAIModel
from strands.tools.executors import SequentialToolExecutor

import agora
from agora.integrations.strands import AgoraModel
from tests.integrations.bound import Bound
from tests.integrations.conformance import MODEL, PNG, SYSTEM, TASK, Case, Conformance, Ran


def model_of(case: Case) -> Any:
    if case.endpoint == "bedrock":
        session = boto3.Session("k", "k", region_name="us")
        return BedrockModel(
            boto_session=session,
            endpoint_url=case.url,
            boto_client_config=Config(retries={"total_max_attempts": 1}),
            model_id=MODEL,
            streaming=False,
        )
    client = {"base_url": f"{case.url}/v1", "api_key": "key", "max_retries": 0}
    if case.endpoint == "openai":
        return OpenAIModel(client_args=client, model_id=MODEL)
    anthropic = pytest.importorskip("strands.models.anthropic", reason="anthropic is not installed")
    return anthropic.AnthropicModel(
        client_args={**client, "base_url": case.url},
        model_id=case.model,
        max_tokens=2048,
        params={"thinking": {"type": "adaptive"}},
    )


class Agents:
    def run(self, case: Case) -> Ran:
        @tool
        def read_file(name: str) -> str:
            """Return the text of a file.

            Args:
                name: The file's name.
            """
            return case.read_file(name)

        model = model_of(case)
        if case.compressor:
            model = AgoraModel(model, case.compressor)
        agent = Agent(
            model=model,
            tools=[read_file],
            system_prompt=SYSTEM,
            callback_handler=None,
            conversation_manager=NullConversationManager(),
            # At once, results stand in the order in which they came in.
            tool_executor=SequentialToolExecutor(),
        )
        given: Any = TASK
        if case.image:
            source = {"bytes": base64.b64decode(PNG)}
            given = [{"text": TASK}, {"image": {"format": "png", "source": source}}]
        before = copy.deepcopy(given)

        async def watch() -> None:
            async for _ in agent.stream_async(given):
                pass

        if case.call == "sync":
            agent(given)
        elif case.call == "async":
            asyncio.run(agent.invoke_async(given))
        else:
            asyncio.run(watch())
        assert given == before
        kept: list[Any] = [[m["role"], str(m["content"])] for m in agent.messages]
        if case.thinking and case.model != MODEL:
            kept = [[m["role"], copy.deepcopy(m["content"])] for m in agent.messages]
        savings = agora.savings(model) if case.compressor else None
        return Ran(agent.messages[-1]["content"][-1]["text"], kept, savings=savings)


class TestStrands(Agents, Conformance):
    ways: ClassVar[tuple[str, ...]] = ("bedrock/sync", "bedrock/async")
    rich: ClassVar[tuple[str, ...]] = ("bedrock/sync",)


class TestStrandsWithAnotherProvider(Agents, Conformance):
    translated: ClassVar[tuple[str, ...]] = ("openai",)
    example: ClassVar = "with_strands.py"
    ways: ClassVar[tuple[str, ...]] = ("openai/sync", "openai/stream")
    rich: ClassVar[tuple[str, ...]] = ("openai/sync",)


class TestBoundThinking(Agents, Bound):
    ways: ClassVar[tuple[str, ...]] = ("sync", "stream")
    loose: ClassVar[tuple[str, ...]] = ways
    redacts: ClassVar[bool] = False
