import asyncio
import json
from typing import Any, ClassVar

import pytest

pytest.importorskip("langchain.agents", reason="LangChain has an environment of its own")

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

import agora
from agora import Compressor
from agora.integrations.base import Shortener
from agora.integrations.langchain import AgoraMiddleware, shorten
from harness.shortened import REMOVED, is_edited
from tests.integrations.bound import Bound
from tests.integrations.conformance import MODEL, PNG, SYSTEM, TASK, Case, Conformance, Ran

CONFIG = {"configurable": {"thread_id": "1"}, "recursion_limit": 200}


def model_of(case: Case) -> Any:
    if case.endpoint == "anthropic":
        thinking = {"type": "enabled", "budget_tokens": 1024} if case.thinking else None
        if case.model != MODEL:
            thinking = {"type": "adaptive"}
        return ChatAnthropic(
            model=case.model,
            base_url=case.url,
            api_key="key",
            max_tokens=2048,
            max_retries=0,
            thinking=thinking,
            output_version="v1" if case.call == "v1" else None,
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


class Agents:
    def run(self, case: Case) -> Ran:
        @tool
        def read_file(name: str) -> str:
            """Return the text of a file."""
            return case.read_file(name)

        middleware = [AgoraMiddleware(case.compressor)] if case.compressor else []
        agent = create_agent(
            model_of(case),
            [read_file],
            system_prompt=SYSTEM,
            middleware=middleware,
            checkpointer=InMemorySaver(),
        )
        given = {"messages": [{"role": "user", "content": task_of(case)}]}
        before = json.dumps(given)
        pieces: list[str] = []
        if case.call in ("sync", "v1"):
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
        savings = agora.savings(middleware[0]) if middleware else None
        return Ran(answer, [plain(message) for message in kept], savings=savings)


class TestLangChain(Agents, Conformance):
    translated: ClassVar[tuple[str, ...]] = ("thinking",)
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


class TestBoundThinking(Agents, Bound):
    ways: ClassVar[tuple[str, ...]] = ("sync", "astream", "v1")
    loose: ClassVar[tuple[str, ...]] = ways


SIGNED: dict[str, Any] = {
    "anthropic": {"content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]},
    "redacted": {"content": [{"type": "redacted_thinking", "data": "c2ln"}]},
    "v1": {"content": [{"type": "reasoning", "reasoning": "", "extras": {"signature": "c2ln"}}]},
    "v1 redacted": {
        "content": [{"type": "non_standard", "value": {"type": "redacted_thinking", "data": "c2"}}]
    },
    "bedrock": {
        "content": [
            {"type": "reasoning_content", "reasoning_content": {"text": "", "signature": "c2ln"}}
        ]
    },
    "bedrock redacted": {
        "content": [
            {"type": "reasoning_content", "reasoning_content": {"redacted_content": b"sealed"}}
        ]
    },
    "litellm": {
        "content": "",
        "additional_kwargs": {
            "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
            "noted": "by somebody else",
        },
    },
    "openrouter": {
        "content": [],
        "additional_kwargs": {
            "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "c2ln"}]
        },
    },
}


@pytest.mark.parametrize("shape", SIGNED)
def test_signed_thinking_is_taken_out_of_whatever_shape_it_has(shape: str) -> None:
    messages: list[BaseMessage] = [HumanMessage("Find it.")]
    for number in range(9):
        call = {"id": f"c{number}", "name": "read", "args": {}}
        messages.append(AIMessage(**SIGNED[shape], tool_calls=[call]))
        messages.append(ToolMessage(f"row {number} " * 60, tool_call_id=f"c{number}"))
    messages += [AIMessage(**SIGNED[shape]), HumanMessage("And now?")]
    before = [message.model_dump() for message in messages]

    every = Compressor(edits="every_call")
    shorter, _ = shorten(Shortener(every), messages, model="claude-fable-5-1")
    plain, _ = shorten(Shortener(every), messages, model="claude-opus-4-5")

    sent = str([message.model_dump() for message in shorter])
    assert is_edited(sent)
    assert not any(secret in sent for secret in ("c2ln", "c2'", "sealed", "'hm'"))
    assert any(secret in str(plain) for secret in ("c2ln", "c2'", "sealed", "'hm'"))
    assert ("by somebody else" in sent) == (shape == "litellm")
    assert shorter[-2].text == REMOVED, "a message may not be empty"
    assert [message.model_dump() for message in messages] == before
