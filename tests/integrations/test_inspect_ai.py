import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("inspect_ai", reason="Inspect AI has an environment of its own")

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    get_model,
)
from inspect_ai.tool import Tool, ToolCall, tool

from agora.adapters.thoughts import REMOVED
from agora.compressor import Compressor
from agora.integrations.inspect_ai import AgoraCompaction, shorten
from agora.testing import FailingScorer
from tests.integrations import counts
from tests.integrations.bound import Bound, FailsNowAndThen, thoughts, unsigned
from tests.integrations.conformance import (
    ANSWER,
    FILES,
    MODEL,
    PNG,
    ROOT,
    SYSTEM,
    TASK,
    Case,
    Conformance,
    Ran,
)
from tests.integrations.loopback import Received

THRESHOLD = 4_000


os.environ.setdefault("LOCAL_API_KEY", "key")


def model_of(case: Case) -> Any:
    config = GenerateConfig(max_retries=0, max_tokens=2048)
    if case.endpoint == "anthropic":
        # Inspect lets only models it knows think.
        name = "claude-sonnet-4-5" if case.thinking else MODEL
        if case.model != MODEL:
            name = case.model
        elif case.thinking:
            config = config.merge(GenerateConfig(reasoning_tokens=1024, max_tokens=4096))
        return get_model(
            f"anthropic/{name}", base_url=case.url, api_key="key", config=config, memoize=False
        )
    return get_model(
        f"openai-api/local/{MODEL}",
        base_url=f"{case.url}/v1",
        api_key="key",
        config=config,
        responses_api=case.endpoint == "responses",
        memoize=False,
    )


class Agents:
    threshold = THRESHOLD

    def run(self, case: Case) -> Ran:
        @tool(name="read_file")
        def reader() -> Tool:
            async def execute(name: str) -> str:
                """Return the text of a file.

                Args:
                    name: The file's name.
                """
                return case.read_file(name)

            return execute

        content: Any = TASK
        if case.image:
            image = ContentImage(image=f"data:image/png;base64,{PNG}")
            content = [ContentText(text=TASK), image]
        compaction = case.compressor and AgoraCompaction(case.compressor, threshold=self.threshold)
        task = Task(
            dataset=[Sample(input=[ChatMessageUser(content=content)])],
            solver=react(
                prompt=SYSTEM, tools=[reader()], submit=False, compaction=compaction or None
            ),
        )
        logs = evaluate(
            task,
            model=model_of(case),
            display="none",
            log_dir=str(case.folder.parent / "logs"),
            log_level="warning",
        )
        assert logs[0].status == "success", logs[0].error
        sample = logs[0].samples[0]
        kept = [[m.role, m.text, str(getattr(m, "tool_calls", ""))] for m in sample.messages]
        return Ran(sample.output.completion, kept)


class TestInspect(Agents, Conformance):
    example: ClassVar = "with_inspect_ai.py"
    prelude: ClassVar = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {counts.__name__}"
    ways: ClassVar[tuple[str, ...]] = ("openai/eval", "responses/eval", "anthropic/eval")
    rich: ClassVar[tuple[str, ...]] = ("openai/eval", "anthropic/eval")

    def _check_requests(self, plain: Ran, ran: Ran, compressor: Compressor) -> None:
        """Each request is the compressed input of some call, and what came after that call."""
        compressor = replace(compressor, schedule="every_call")
        assert len(ran.requests) == len(plain.requests) > 1
        edits: list[tuple[Any, int]] = [([], 0)]
        changed = 0
        for before, after in zip(plain.requests, ran.requests, strict=True):
            whole = without_breakpoints(before.messages)
            sent = without_breakpoints(after.messages)
            edited, size = edits[-1]
            if sent != edited + whole[size:]:
                edits.append(
                    (self.expected(replace(before, body=asked(before)), compressor), len(whole))
                )
                changed += 1
                assert sent == edits[-1][0]
            assert without_breakpoints(after.options) == without_breakpoints(before.options)
        assert changed >= 2, "Inspect did not ask"

    def test_a_scorer_that_fails_changes_nothing_but_a_line_in_the_log(
        self, way: str, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Inspect needs a shorter input all the same: its own strategy makes it."""
        plain = self._ran(way, folder)
        broken = Compressor(scorer=FailingScorer(RuntimeError("planted")), strict=True)
        with caplog.at_level(logging.WARNING, logger="agora"):
            ran = self._ran(way, folder, broken)

        said = [r.getMessage() for r in caplog.records if r.name.startswith("agora")]
        assert ran.answer == plain.answer == ANSWER
        assert ran.history == plain.history
        assert len(said) == 1
        assert "planted" in said[0]

    def test_where_nothing_is_elided_requests_are_as_they_were(self, folder: Path) -> None:
        plain = self._ran(self.ways[0], folder)
        ran = self._ran(self.ways[0], folder, Compressor(k_recent=FILES + 1))

        assert ran.answer == plain.answer
        assert ran.history == plain.history
        assert "elided" not in str([r.messages for r in ran.requests])


class TestBoundThinking(Agents, Bound):
    """Inspect asks the API to drop what does not hold; there is nothing to drop."""

    ways: ClassVar[tuple[str, ...]] = ("eval",)
    threshold = 5_000

    def test_edited_at_every_call_no_older_thinking_goes_out(self, way: str, folder: Path) -> None:
        """Inspect decides when: between two edits, what was thought since the first stays."""
        compressor = Compressor()
        plain, before = self.ran(way, folder, None)
        ran, after = self.ran(way, folder, compressor)

        assert ran.answer == ANSWER
        assert not after.refused
        assert not after.dropped
        assert ran.history == plain.history
        assert len(after.received) == len(before.received) == self.steps + 1
        every = replace(compressor, schedule="every_call")
        edited: list[Any] = []
        size = edits = 0
        for was, now in zip(before.received, after.received, strict=True):
            whole, sent = unsigned(was.messages), unsigned(now.messages)
            if sent != edited + whole[size:]:
                edited, size = unsigned(self.expected(was, every)), len(whole)
                edits += 1
                assert sent == edited
                assert not thoughts(now.messages)
        assert edits >= 2

    def test_where_scoring_fails_now_and_then_nothing_is_refused(self, folder: Path) -> None:
        """Then Inspect's own strategy takes over, which leaves thinking where it is."""
        self.threshold = THRESHOLD  # Which no edit of ours reaches at the end, either.
        for strict in (False, True):
            compressor = Compressor(scorer=FailsNowAndThen(), strict=strict)
            ran, server = self.ran(self.ways[0], folder, compressor)

            assert ran.answer == ANSWER
            assert not server.refused
            assert not server.dropped


def test_a_message_of_nothing_but_thinking_takes_a_text() -> None:
    thinking = ContentReasoning(reasoning="c2ln", summary="hm", redacted=True)
    messages: list[Any] = [ChatMessageUser(content="Find it.")]
    for number in range(9):
        call = ToolCall(id=f"c{number}", function="read", arguments={})
        messages.append(ChatMessageAssistant(content=[thinking], tool_calls=[call]))
        row = f"row {number} " * 60
        messages.append(ChatMessageTool(content=row, tool_call_id=f"c{number}"))
    messages += [ChatMessageAssistant(content=[thinking]), ChatMessageUser(content="And now?")]
    before = [message.model_dump() for message in messages]
    model = get_model("anthropic/claude-fable-5-1", api_key="key", memoize=False)

    shorter = shorten(Compressor(schedule="every_call"), messages, model, [])

    assert shorter is not None
    assert "elided" in str(shorter)
    assert "c2ln" not in str(shorter)
    assert shorter[-2].text == REMOVED
    assert [message.model_dump() for message in messages] == before


def asked(request: Received) -> dict[str, Any]:
    return (
        {**request.body, "messages": without_breakpoints(request.messages)}
        if (request.format == "anthropic")
        else request.body
    )


def without_breakpoints(value: Any) -> Any:
    """Return the messages without cache breakpoints: Inspect sets them last, on what is sent."""
    if isinstance(value, list):
        return [without_breakpoints(item) for item in value]
    if isinstance(value, dict):
        return {k: without_breakpoints(v) for k, v in value.items() if k != "cache_control"}
    return value
