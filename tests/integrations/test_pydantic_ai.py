import asyncio
import base64
import copy
from typing import Any, ClassVar

import pytest

pytest.importorskip("pydantic_ai", reason="Pydantic AI has an environment of its own")

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

import agora
from agora import Compressor
from agora.integrations.base import Shortener
from agora.integrations.pydantic_ai import Agora, shorten
from harness.shortened import REMOVED, is_edited
from tests.integrations.bound import Bound
from tests.integrations.conformance import MODEL, PNG, SYSTEM, TASK, Case, Conformance, Ran


def model_of(case: Case) -> Any:
    if case.endpoint == "anthropic":
        return AnthropicModel(
            case.model, provider=AnthropicProvider(base_url=case.url, api_key="key")
        )
    provider = OpenAIProvider(base_url=f"{case.url}/v1", api_key="key")
    if case.endpoint == "openai":
        return OpenAIChatModel(MODEL, provider=provider)
    # Reasoning is sent back only to models that are known to take it.
    profile = OpenAIModelProfile(openai_supports_encrypted_reasoning_content=True)
    return OpenAIResponsesModel(MODEL, provider=provider, profile=profile)


def plain(message: Any) -> Any:
    return [
        [part.part_kind, str(getattr(part, "content", "")), str(getattr(part, "args", ""))]
        for part in message.parts
    ]


class Agents:
    def run(self, case: Case) -> Ran:
        capabilities = [] if case.compressor is None else [Agora(case.compressor)]
        agent = Agent(model_of(case), instructions=SYSTEM, capabilities=capabilities, retries=0)

        @agent.tool_plain
        def read_file(name: str) -> str:
            """Return the text of a file."""
            return case.read_file(name)

        prompt: Any = TASK
        if case.image:
            prompt = [TASK, BinaryContent(base64.b64decode(PNG), media_type="image/png")]
        before = copy.deepcopy(prompt)
        settings: Any = {"max_tokens": 2048}
        if case.thinking and case.endpoint == "anthropic":
            settings["anthropic_thinking"] = {"type": "enabled", "budget_tokens": 1024}
            if case.model != MODEL:
                settings["anthropic_thinking"] = {"type": "adaptive"}
        if case.endpoint == "responses":
            settings["openai_store"] = False

        streamed = []

        async def see(_: Any, events: Any) -> None:
            streamed.extend([event async for event in events])

        options: Any = {"model_settings": settings}
        if case.call == "stream":
            options["event_stream_handler"] = see
        if case.call == "sync":
            result = agent.run_sync(prompt, **options)
        else:
            result = asyncio.run(agent.run(prompt, **options))
        assert bool(streamed) == (case.call == "stream")
        assert prompt == before
        savings = agora.savings(capabilities[0]) if capabilities else None
        kept = [plain(message) for message in result.all_messages()]
        return Ran(result.output, kept, savings=savings)


class TestPydanticAI(Agents, Conformance):
    translated: ClassVar[tuple[str, ...]] = ("thinking", "anthropic")
    example: ClassVar = "with_pydantic_ai.py"
    ways: ClassVar[tuple[str, ...]] = (
        "openai/sync",
        "openai/async",
        "openai/stream",
        "responses/async",
        "responses/stream",
        "anthropic/sync",
        "anthropic/stream",
    )
    rich: ClassVar[tuple[str, ...]] = (
        "openai/async",
        "responses/async",
        "anthropic/async",
        "anthropic/stream",
    )


class TestBoundThinking(Agents, Bound):
    ways: ClassVar[tuple[str, ...]] = ("async", "stream")
    loose: ClassVar[tuple[str, ...]] = ways


def test_a_response_of_nothing_but_thinking_takes_a_text() -> None:
    thinking = ThinkingPart("hm", signature="c2ln", provider_name="anthropic")
    messages: list[Any] = [ModelRequest([UserPromptPart("Find it.")])]
    for number in range(9):
        call = ToolCallPart("read", {}, tool_call_id=f"c{number}")
        messages.append(ModelResponse([thinking, call]))
        row = f"row {number} " * 60
        messages.append(ModelRequest([ToolReturnPart("read", row, tool_call_id=f"c{number}")]))
    said = ThinkingPart("said by another", id="content")
    messages += [ModelResponse([thinking, said]), ModelRequest([UserPromptPart("And now?")])]
    before = copy.deepcopy(messages)

    shortener = Shortener(Compressor(edits="every_call"))
    shorter, _ = shorten(shortener, messages, model="claude-fable-5-1")

    assert is_edited(str(shorter))
    assert "c2ln" not in str(shorter)
    assert shorter[-2].parts == [said, TextPart(REMOVED)]
    assert messages == before
