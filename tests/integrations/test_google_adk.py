import asyncio
import base64
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("google.adk", reason="Google ADK has an environment of its own")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.google_llm import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types

import agora
from agora import Compressor
from agora.integrations.google_adk import AgoraPlugin
from harness.shortened import is_edited
from tests.integrations.bound import MODEL as BOUND
from tests.integrations.bound import long_script, signing
from tests.integrations.conformance import (
    ANSWER,
    FILES,
    MODEL,
    PNG,
    SYSTEM,
    TASK,
    Case,
    Conformance,
    Ran,
    write_notes,
)


def model_of(case: Case) -> Any:
    if case.endpoint == "gemini":
        return Gemini(model=MODEL, base_url=case.url)
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
    picture: ClassVar = PNG[:40]
    ways: ClassVar[tuple[str, ...]] = ("gemini/async", "gemini/stream")
    rich: ClassVar[tuple[str, ...]] = ("gemini/async",)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "key")


def test_claude_that_checks_its_thinking_gets_unchanged_requests(tmp_path: Path) -> None:
    write_notes(tmp_path)
    with signing(long_script(FILES)) as server:
        options: Any = {"endpoint": "anthropic", "call": "async", "folder": tmp_path}
        options |= {"model": BOUND, "compressor": Compressor(edits="every_call")}
        ran = Agents().run(Case(url=server.url, **options))

    assert ran.answer == ANSWER
    assert not server.refused
    assert not is_edited([r.messages for r in server.received])
