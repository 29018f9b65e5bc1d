import base64
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("smolagents", reason="smolagents has an environment of its own")

from PIL import Image
from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool

import agora
from agora import Compressor
from agora.integrations.smolagents import wrap_model
from harness.shortened import is_edited
from tests.integrations.bound import MODEL as BOUND
from tests.integrations.bound import long_script, signing, thoughts
from tests.integrations.conformance import (
    ANSWER,
    FILES,
    MODEL,
    PNG,
    TASK,
    Case,
    Conformance,
    Ran,
    note,
    script,
    write_notes,
)
from tests.integrations.loopback import Answer, Call, loopback

Body = dict[str, Any]


def model_of(case: Case) -> Any:
    client = {"max_retries": 0}
    model = OpenAIServerModel(MODEL, f"{case.url}/v1", api_key="key", client_kwargs=client)
    return model if case.compressor is None else wrap_model(model, case.compressor)


def plain(step: Body) -> Body:
    """Return a step of the memory without times and without the copy of what was sent."""
    apart = ("timing", "model_input_messages", "model_output_message", "token_usage")
    return {k: v for k, v in step.items() if k not in apart}


class TestToolCallingAgent(Conformance):
    translated: ClassVar[tuple[str, ...]] = ("openai",)
    example: ClassVar = "with_smolagents.py"
    ways: ClassVar[tuple[str, ...]] = ("openai/run", "openai/stream", "openai/stream_outputs")
    rich: ClassVar[tuple[str, ...]] = ("openai/run",)
    images: ClassVar = False
    last: ClassVar = Answer(calls=(Call("call_end", "final_answer", {"answer": ANSWER}),))

    def agent(self, case: Case) -> Any:
        @tool
        def read_file(name: str) -> str:
            """Return the text of a file.

            Args:
                name: The file's name.
            """
            return case.read_file(name)

        return ToolCallingAgent(
            [read_file],
            model_of(case),
            max_steps=30,
            verbosity_level=0,
            stream_outputs=case.call == "stream_outputs",
        )

    def run(self, case: Case) -> Ran:
        agent = self.agent(case)
        images = [Image.open(io.BytesIO(base64.b64decode(PNG)))] if case.image else None
        if case.call == "stream":
            *_, last = agent.run(TASK, images=images, stream=True)
            answer = last.output
        else:
            answer = agent.run(TASK, images=images)
        kept = [plain(step) for step in agent.memory.get_full_steps()]
        history = json.loads(json.dumps(kept, default=lambda image: type(image).__name__))
        savings = agora.savings(agent.model) if case.compressor else None
        return Ran(str(answer), history, savings=savings)


def test_an_agent_that_writes_code_is_compressed_as_well(tmp_path: Path) -> None:
    write_notes(tmp_path)
    case = Case(endpoint="openai", call="run", folder=tmp_path, compressor=Compressor())

    @tool
    def read_file(name: str) -> str:
        """Return the text of a file.

        Args:
            name: The file's name.
        """
        return case.read_file(name)

    codes = [f'print(read_file("note_{n}.txt"))' for n in range(1, FILES + 1)]
    codes.append(f'final_answer("{ANSWER}")')
    with loopback(
        [Answer(text=f"Thought: on.\n<code>\n{code}\n</code>") for code in codes]
    ) as server:
        agent = CodeAgent([read_file], model_of(replace(case, url=server.url)), verbosity_level=0)
        answer = agent.run(TASK, max_steps=30)

    last = json.dumps(server.received[-1].messages)
    assert answer == ANSWER
    assert is_edited(last)
    assert "python_interpreter" in last
    assert len(server.received) == len(codes)
    assert sum(note(n).splitlines()[9] in last for n in range(1, FILES + 1)) < FILES - 3


def test_a_later_task_of_the_same_agent_stays(tmp_path: Path) -> None:
    write_notes(tmp_path)
    again = "And which note names the pilot? Say so."
    answers = [*script(thinking=False, last=TestToolCallingAgent.last)]
    with loopback([*answers, *answers]) as server:
        case = Case(
            endpoint="openai", call="run", folder=tmp_path, compressor=Compressor(), url=server.url
        )
        kept = TestToolCallingAgent().agent(case)
        kept.run(TASK)
        kept.run(again, reset=False)

    for request in server.received[len(answers) + 1 :]:
        assert TASK in json.dumps(request.messages)
        assert again in json.dumps(request.messages)


def test_a_task_with_an_image_goes_out_as_it_is(tmp_path: Path) -> None:
    """smolagents repeats the task's images in every observation; a program's text has none."""
    write_notes(tmp_path)
    suite = TestToolCallingAgent()
    ran = suite._ran("openai/run", tmp_path, Compressor(), images=True)

    assert ran.answer == ANSWER
    assert all(PNG[:40] in json.dumps(request.messages) for request in ran.requests)
    assert ran.savings is not None
    assert ran.savings.shortened == 0


def test_thinking_of_claude_never_goes_back_so_nothing_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("litellm", reason="LiteLLM is not installed")
    from smolagents import LiteLLMModel

    write_notes(tmp_path)
    end = Answer(thought="Done.", calls=TestToolCallingAgent.last.calls)
    with signing([*long_script(FILES)[:-1], end]) as server:
        options = {"api_base": server.url, "api_key": "key", "max_tokens": 2048}
        model = LiteLLMModel(f"anthropic/{BOUND}", **options)

        @tool
        def read_file(name: str) -> str:
            """Return the text of a file.

            Args:
                name: The file's name.
            """
            return (tmp_path / name).read_text()

        edited = wrap_model(model, Compressor(edits="every_call"))
        agent = ToolCallingAgent([read_file], edited, max_steps=30, verbosity_level=0)
        answer = agent.run(TASK)

    assert answer == ANSWER
    assert not server.refused
    assert len(server.received) == FILES + 1
    assert is_edited(server.received[-1].messages)
    assert not any(thoughts(request.messages) for request in server.received)
