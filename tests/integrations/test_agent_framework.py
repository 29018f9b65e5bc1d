import asyncio
import re
from typing import Any, ClassVar

import pytest

pytest.importorskip("agent_framework", reason="Agent Framework has an environment of its own")

from agent_framework import Agent, AgentSession, InMemoryHistoryProvider, tool
from agent_framework.openai import OpenAIChatCompletionClient

from agora.integrations.agent_framework import AgoraMiddleware
from tests.integrations.bound import Bound
from tests.integrations.conformance import MODEL, SYSTEM, TASK, Case, Conformance, Ran


def client_of(case: Case) -> Any:
    if case.endpoint == "openai":
        return OpenAIChatCompletionClient(model=MODEL, base_url=f"{case.url}/v1", api_key="key")
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    clients = pytest.importorskip("agent_framework_anthropic", reason="it is a package of its own")
    client = anthropic.AsyncAnthropic(base_url=case.url, api_key="key", max_retries=0)
    return clients.AnthropicClient(model=case.model, anthropic_client=client)


class Agents:
    def run(self, case: Case) -> Ran:
        @tool(approval_mode="never_require")
        def read_file(name: str) -> str:
            """Return the text of a file."""
            return case.read_file(name)

        client = client_of(case)
        history = InMemoryHistoryProvider()
        agent = Agent(
            client=client,
            instructions=SYSTEM,
            tools=[read_file],
            middleware=[AgoraMiddleware(case.compressor)] if case.compressor else [],
            context_providers=[history],
        )

        async def run() -> tuple[str, Any]:
            session = AgentSession()
            if case.call == "stream":
                stream = agent.run(TASK, session=session, stream=True)
                async for _ in stream:
                    pass
                answer = await stream.get_final_response()
            else:
                answer = await agent.run(TASK, session=session)
            return answer.messages[-1].text, session.to_dict()

        answer, kept = asyncio.run(run())
        named = re.sub(r"af-call-[0-9a-f]+", "", str(kept).replace(str(kept["session_id"]), ""))
        named = re.sub(r"'protected_data': '[^']*'", "", named)
        return Ran(answer, named)


class TestAgentFramework(Agents, Conformance):
    example: ClassVar = "with_agent_framework.py"
    ways: ClassVar[tuple[str, ...]] = ("openai/async", "openai/stream")


class TestBoundThinking(Agents, Bound):
    ways: ClassVar[tuple[str, ...]] = ("async", "stream")
    loose: ClassVar[tuple[str, ...]] = ways
    redacts: ClassVar[bool] = False
