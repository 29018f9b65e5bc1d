import asyncio
import base64
import json
from typing import Any, ClassVar

import pytest

pytest.importorskip("google.adk", reason="Google ADK has an environment of its own")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

from agora.compressor import Compressor
import agora
from agora.integrations.google_adk import AgoraPlugin
from tests.integrations.bound import Bound
from tests.integrations.conformance import MODEL, PNG, SYSTEM, TASK, Case, Conformance, Ran
from tests.integrations.loopback import Received


def model_of(case: Case) -> Any:
    if case.endpoint == "openai":
        return LiteLlm(model=f"openai/{MODEL}", api_base=f"{case.url}/v1", api_key="key")
    if case.call == "litellm":
        thinking = {"thinking": {"type": "adaptive"}, "max_tokens": 2048, "num_retries": 0}
        name = f"anthropic/{case.model}"
        return LiteLlm(model=name, api_base=case.url, api_key="key", **thinking)
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    from google.adk.models.anthropic_llm import AnthropicLlm

    class Claude(AnthropicLlm):
        @property
        def _anthropic_client(self) -> Any:
            return anthropic.AsyncAnthropic(base_url=case.url, api_key="key", max_retries=0)

    return Claude(model=case.model)


class Agents:
    def run(self, case: Case) -> Ran:
        def read_file(name: str) -> str:
            """Return the text of a file."""
            return case.read_file(name)

        model = model_of(case)
        agent = LlmAgent(name="reader", model=model, instruction=SYSTEM, tools=[read_file])
        plugins = [AgoraPlugin(case.compressor)] if case.compressor else []
        parts = [types.Part(text=TASK)]
        if case.image:
            parts.append(types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png"))
        mode = StreamingMode.SSE if case.call == "stream" else StreamingMode.NONE

        async def run() -> tuple[str, Any]:
            runner = InMemoryRunner(agent=agent, app_name="notes", plugins=plugins)
            session = await runner.session_service.create_session(app_name="notes", user_id="u")
            answer = ""
            async for event in runner.run_async(
                user_id="u",
                session_id=session.id,
                new_message=types.Content(role="user", parts=parts),
                run_config=RunConfig(streaming_mode=mode),
            ):
                if event.is_final_response() and event.content:
                    answer = event.content.parts[-1].text
            kept = await runner.session_service.get_session(
                app_name="notes", user_id="u", session_id=session.id
            )
            return answer, [e.content.model_dump(mode="json") for e in kept.events if e.content]

        answer, kept = asyncio.run(run())
        savings = agora.savings(plugins[0]) if plugins else None
        return Ran(answer, kept, savings=savings)


class TestADK(Agents, Conformance):
    example: ClassVar = "with_google_adk.py"
    ways: ClassVar[tuple[str, ...]] = ("openai/async", "openai/stream")
    rich: ClassVar[tuple[str, ...]] = ("openai/async",)

    def expected(self, before: Received, compressor: Compressor) -> Any:
        """Return the compressed messages, each marker inside the JSON that a tool's answer is."""
        compression = compressor.compress(
            before.messages,
            model=before.body["model"],
            format="openai",
            tools=before.body["tools"],
        )
        if not compression.changed:
            return before.messages
        out = []
        for at, new in zip(compression.positions, compression.messages, strict=True):
            old = before.messages[at]
            if new is not old and old["role"] == "tool":
                text = new["content"]
                if text.startswith(old["content"]):
                    note = text[len(old["content"]) + 2 :]
                    said = {**json.loads(old["content"]), NOTE: note}
                else:
                    said = {"result": text}
                new = {**old, "content": json.dumps(said, ensure_ascii=False)}
            out.append(new)
        return out


class TestBoundThinking(Agents, Bound):
    ways: ClassVar[tuple[str, ...]] = ("async", "stream")
    loose: ClassVar[tuple[str, ...]] = ways


class TestBoundThinkingThroughLiteLLM(Agents, Bound):
    ways: ClassVar[tuple[str, ...]] = ("litellm",)
    loose: ClassVar[tuple[str, ...]] = ways
    redacts: ClassVar[bool] = False
