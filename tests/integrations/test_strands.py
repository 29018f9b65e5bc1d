import asyncio
import base64
import copy
from typing import Any, ClassVar

import pytest

pytest.importorskip("strands", reason="Strands has an environment of its own")

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.openai import OpenAIModel
from strands.tools.executors import SequentialToolExecutor

from agora.integrations.strands import compressed
from tests.integrations.conformance import MODEL, PNG, SYSTEM, TASK, Case, Conformance, Ran


class TestStrands(Conformance):
    example: ClassVar = "with_strands.py"
    ways: ClassVar[tuple[str, ...]] = ("openai/sync", "openai/async", "openai/stream")
    rich: ClassVar[tuple[str, ...]] = ("openai/sync",)

    def run(self, case: Case) -> Ran:
        @tool
        def read_file(name: str) -> str:
            """Return the text of a file.

            Args:
                name: The file's name.
            """
            return case.read_file(name)

        client = {"base_url": f"{case.url}/v1", "api_key": "key", "max_retries": 0}
        model = OpenAIModel(client_args=client, model_id=MODEL)
        agent = Agent(
            model=model if case.compressor is None else compressed(model, case.compressor),
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
        kept = [[m["role"], str(m["content"])] for m in agent.messages]
        return Ran(agent.messages[-1]["content"][0]["text"], kept)
