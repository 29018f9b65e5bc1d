import asyncio
import json
from typing import Any, ClassVar

import pytest

pytest.importorskip("langchain.agents", reason="LangChain has an environment of its own")

from langchain.agents import create_agent
from langchain.agents.middleware import ContextEditingMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessageChunk
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from agora.integrations.langchain import AgoraEdit, AgoraMiddleware
from tests.integrations.conformance import MODEL, PNG, SYSTEM, TASK, Case, Conformance, Ran

CONFIG = {"configurable": {"thread_id": "1"}, "recursion_limit": 60}


def model_of(case: Case) -> Any:
    if case.endpoint == "anthropic":
        thinking = {"type": "enabled", "budget_tokens": 1024} if case.thinking else None
        return ChatAnthropic(
            model=MODEL,
            base_url=case.url,
            api_key="key",
            max_tokens=2048,
            max_retries=0,
            thinking=thinking,
        )
    return ChatOpenAI(
        model=MODEL,
        base_url=f"{case.url}/v1",
        api_key="key",
        max_retries=0,
        use_responses_api=case.endpoint == "responses",
        **({"store": False} if case.endpoint == "responses" else {}),
    )


def task_of(case: Case) -> Any:
    if not case.image:
        return TASK
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    return [{"type": "text", "text": TASK}, image]


def plain(message: Any) -> Any:
    return [message.type, message.content, [c["args"] for c in getattr(message, "tool_calls", ())]]


class TestLangChain(Conformance):
    example: ClassVar = "with_langchain.py"
    ways: ClassVar[tuple[str, ...]] = (
        "openai/sync",
        "openai/async",
        "openai/stream",
        "openai/astream",
        "anthropic/sync",
        "anthropic/astream",
        "responses/sync",
        "responses/astream",
    )
    rich: ClassVar[tuple[str, ...]] = (
        "openai/sync",
        "anthropic/sync",
        "anthropic/astream",
        "responses/sync",
    )

    def middleware(self, case: Case) -> list[Any]:
        return [] if case.compressor is None else [AgoraMiddleware(case.compressor)]

    def run(self, case: Case) -> Ran:
        @tool
        def read_file(name: str) -> str:
            """Return the text of a file."""
            return case.read_file(name)

        agent = create_agent(
            model_of(case),
            [read_file],
            system_prompt=SYSTEM,
            middleware=self.middleware(case),
            checkpointer=InMemorySaver(),
        )
        given = {"messages": [{"role": "user", "content": task_of(case)}]}
        before = json.dumps(given)
        pieces: list[str] = []
        if case.call == "sync":
            agent.invoke(given, CONFIG)
        elif case.call == "async":
            asyncio.run(agent.ainvoke(given, CONFIG))
        elif case.call == "stream":
            for piece, _ in agent.stream(given, CONFIG, stream_mode="messages"):
                pieces += [piece.text] if isinstance(piece, AIMessageChunk) else []
        else:

            async def watch() -> None:
                async for piece, _ in agent.astream(given, CONFIG, stream_mode="messages"):
                    pieces.extend([piece.text] if isinstance(piece, AIMessageChunk) else [])

            asyncio.run(watch())
        assert json.dumps(given) == before
        kept = agent.get_state(CONFIG).values["messages"]
        answer = str(kept[-1].text)
        assert not pieces or "".join(map(str, pieces)).endswith(answer)
        return Ran(answer, [plain(message) for message in kept])


class TestAsContextEdit(TestLangChain):
    example: ClassVar = ""
    ways: ClassVar[tuple[str, ...]] = ("openai/sync", "openai/async")
    rich: ClassVar[tuple[str, ...]] = ("openai/sync",)

    def middleware(self, case: Case) -> list[Any]:
        if case.compressor is None:
            return []
        return [ContextEditingMiddleware(edits=[AgoraEdit(case.compressor, model=MODEL)])]
