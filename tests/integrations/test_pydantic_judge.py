import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="Pydantic AI has an environment of its own")

from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile

from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Anchor
from agora.integrations.pydantic_judge import AgoraJudge
from agora.integrations.wire import call
from agora.scorers import load_scorer
from agora.testing import FailingScorer
from tests.integrations.conformance import note
from tests.integrations.frameworks import ROOT

PROMPT = """<current_task>
Where does the barge lie?
</current_task>

<recent_context>
<message role="tool_return" name="read">
Ask for ledger L-107.
</message>
</recent_context>

<earlier_step>
<message role="tool_call" name="read">
{'name': 'note_1'}
</message>
<message role="tool_return" name="read">
ledger L-107 is in berth_1
</message>
</earlier_step>
"""


class Needed(BaseModel):
    needed_verbatim: float = Field(ge=0, le=1)
    still_matters: bool


class Ranked(BaseModel):
    scores: list[float]


class Words(BaseModel):
    summary: str


class ByLength:
    """Scores a step by the length of what it brought, which is easy to tell in a test."""

    def score(self, anchor: Anchor, steps: Any) -> list[float]:
        return [min(len(step.observation) / 1_000, 1.0) for step in steps]


def conversation(steps: int = 5) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the ledger."}]
    for n in range(1, steps + 1):
        made = call(f"c{n}", "read", f'{{"name": "note_{n}"}}')
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": note(n)})
    return {"messages": messages}


def test_the_step_that_a_prompt_shows_is_scored_in_the_fields_that_are_asked_for() -> None:
    answer = Agent(AgoraJudge(ByLength()), output_type=Needed).run_sync(PROMPT).output

    assert 0.05 < answer.needed_verbatim < 0.15
    assert not answer.still_matters
    low = Agent(AgoraJudge(ByLength(), threshold=0.05), output_type=Needed)
    assert low.run_sync(PROMPT).output.still_matters


def test_two_steps_are_ranked_by_what_the_newest_observation_asks_for() -> None:
    other = PROMPT[PROMPT.index("<earlier_step>") :].replace("107 is in berth_1", "907: paid")
    judge = Agent(AgoraJudge("lexical"), output_type=Ranked)

    needed, idle = judge.run_sync(PROMPT + other).output.scores

    assert 0 <= idle < needed <= 1


def test_every_step_of_a_whole_request_gets_the_scorers_own_score() -> None:
    import agora

    request = conversation()
    past = agora.parse(request["messages"], format="openai")
    own = load_scorer("features").score(past.anchor(5, newest=True), past.steps)

    ranked = Agent(AgoraJudge(), output_type=Ranked).run_sync(json.dumps(request)).output
    text = Agent(AgoraJudge()).run_sync(json.dumps(request)).output

    assert ranked.scores == json.loads(text) == list(own)


def test_an_output_without_a_tool_is_filled_as_well() -> None:
    judge = AgoraJudge(ByLength())
    judge._profile = ModelProfile(supports_json_schema_output=True)

    answer = Agent(judge, output_type=NativeOutput(Needed)).run_sync(PROMPT).output

    assert answer.needed_verbatim > 0


@pytest.mark.parametrize(
    ("judge", "output", "prompt", "said"),
    [
        (AgoraJudge(), Words, PROMPT, "field 'summary' is a string for 1 steps"),
        (AgoraJudge(), Needed, json.dumps(conversation()), "a number for 5 steps"),
        (AgoraJudge(), Needed, "What do you think?", "no step was judged"),
        (AgoraJudge(FailingScorer(RuntimeError("planted"))), Needed, PROMPT, "planted"),
        (AgoraJudge(url="http://127.0.0.1:9"), Needed, PROMPT, "no step was judged"),
    ],
)
def test_what_cannot_be_judged_is_refused_so_that_another_model_can_go_on(
    judge: AgoraJudge, output: type[BaseModel], prompt: str, said: str
) -> None:
    with pytest.raises(ModelAPIError, match=said):
        Agent(judge, output_type=output).run_sync(prompt)

    pair = FallbackModel(judge, TestModel())
    assert isinstance(Agent(pair, output_type=output).run_sync(prompt).output, output)


@pytest.fixture
def gateway() -> Iterator[str]:
    """Give the URL of a server with the gateway's own judge."""
    score = pytest.importorskip(
        "agora.gateway.editing.score",
        reason="the extra gateway is not installed",
        exc_type=ImportError,
    )
    judge = score.Judge(scorer=ByLength(), counter=EstimatedTokens())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["content-length"]))
            judged = judge(score.Question(body=asked))
            self.send_response(200 if self.path == score.PATH and not judged.problem else 400)
            self.end_headers()
            self.wfile.write(judged.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_gateway_judges_as_the_scorer_in_process_does(gateway: str) -> None:
    for prompt in (PROMPT, json.dumps(conversation())):
        far = Agent(AgoraJudge(url=gateway), output_type=Ranked).run_sync(prompt).output
        near = Agent(AgoraJudge(ByLength()), output_type=Ranked).run_sync(prompt).output

        assert far.scores == near.scores


def test_the_example_prints_a_score_for_each_step() -> None:
    program = ROOT / "examples" / "integrations" / "with_pydantic_judge.py"
    said = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=300, check=True
    ).stdout

    lines = [line.partition(": ") for line in said.splitlines()]
    assert [name for name, _, _ in lines] == ["step 1", "step 2", "step 3", "step 4"]
    assert all(0 <= float(score) <= 1 for _, _, score in lines)


def test_relevance_compaction_keeps_the_steps_that_the_local_judge_puts_first() -> None:
    compaction = pytest.importorskip(
        "pydantic_ai_harness.compaction", reason="pydantic-ai-harness is not installed"
    )
    if not hasattr(compaction, "RelevanceCompaction"):
        pytest.skip("pydantic-ai-harness is older than RelevanceCompaction")
    seen: list[str] = []

    def agent_model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(str(messages))
        number = len(seen)
        if number > 8:
            return ModelResponse(parts=[TextPart("done")])
        made = ToolCallPart("read", {"number": number}, tool_call_id=f"c{number}")
        return ModelResponse(parts=[made])

    judge = compaction.RelevanceCompaction(
        AgoraJudge(ByLength()), max_tokens=700, target_tokens=600, keep_tokens=100
    )
    agent = Agent(FunctionModel(agent_model), capabilities=[judge])

    @agent.tool_plain
    def read(number: int) -> str:
        """Return a note: the second is long, and so worth most to this judge."""
        return f"ledger L-{number}07 " * (90 if number == 2 else 50)

    assert agent.run_sync("Read them all.").output == "done"
    assert "ledger L-207 " * 90 in seen[-1]
    assert any(f"ledger L-{n}07 " * 50 not in seen[-1] for n in range(3, 7))
