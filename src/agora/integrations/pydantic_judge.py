"""Pydantic AI: a model that judges steps with a local scorer, where a hosted judge would be asked.

It writes no text and calls no tools: each answer is a score for a step, or for several.
"""

import asyncio
import json
import urllib.request
from typing import Any

from agora.adapters import parse, read_request
from agora.core.scorer import Scorer
from agora.errors import MissingExtraError
from agora.integrations.wire import Message, call
from agora.scorers import load_scorer

try:
    from pydantic_ai.exceptions import ModelAPIError
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models import Model
except ImportError as error:
    raise MissingExtraError(__name__, "pydantic-ai") from error


class AgoraJudge(Model):
    """A model whose answer is a score in [0, 1] for each step that its prompt shows.

    The prompt is marked up as by `RelevanceCompaction` of pydantic-ai-harness (`<current_task>`,
    `<recent_context>`, one or more `<earlier_step>`), or a request as JSON, whose every step is
    judged. In the answer a number is the score, a truth value whether it reaches `threshold`, and
    a list has all scores, in step order; an agent without an output type gets the list as text.
    With `url`, a gateway there is asked instead of a scorer in process.
    """

    def __init__(
        self, scorer: Scorer | str = "features", *, url: str | None = None, threshold: float = 0.5
    ) -> None:
        super().__init__()
        self._scorer = load_scorer(scorer) if isinstance(scorer, str) else scorer
        self._url = url
        self._threshold = threshold

    @property
    def model_name(self) -> str:
        """What answers and errors call it."""
        return "agora-judge"

    @property
    def system(self) -> str:
        """The provider's name: there is none but this package."""
        return "agora"

    async def request(
        self, messages: list[ModelMessage], model_settings: Any, model_request_parameters: Any
    ) -> ModelResponse:
        """Return the scores in the form that is asked for.

        Raises:
            ModelAPIError: no steps, no scores, or no such form; `FallbackModel` falls back.
        """
        _, asked = self.prepare_request(model_settings, model_request_parameters)
        try:
            said = [p.content for p in messages[-1].parts if p.part_kind == "user-prompt"]
            scores = await asyncio.to_thread(self._scores, *_shown("\n".join(said)))
            part = self._said(asked, scores)
        except Exception as error:
            raise ModelAPIError(self.model_name, f"no step was judged: {error}") from error
        return ModelResponse(parts=[part], model_name=self.model_name)

    def _scores(self, request: Any, judged: int | None) -> list[float]:
        if self._url is None:
            past = parse(read_request(request)).trajectory
            anchor = past.anchor(len(past.steps), newest=True)
            return list(self._scorer.score(anchor, past.steps))[:judged]
        body, headers = json.dumps(request).encode(), {"content-type": "application/json"}
        to = urllib.request.Request(f"{self._url}/v1/agora/score", body, headers)  # noqa: S310
        with urllib.request.urlopen(to, timeout=10) as answer:  # noqa: S310 - the caller's
            return [step["score"] for step in json.load(answer)["steps"]][:judged]

    def _said(self, asked: Any, scores: list[float]) -> TextPart | ToolCallPart:
        if asked.output_tools:
            tool = asked.output_tools[0]
            return ToolCallPart(tool.name, self._filled(tool.parameters_json_schema, scores))
        form = asked.output_object
        return TextPart(json.dumps(self._filled(form.json_schema, scores) if form else scores))

    def _filled(self, schema: dict[str, Any], scores: list[float]) -> dict[str, Any]:
        return {n: self._value(n, f, scores) for n, f in schema.get("properties", {}).items()}

    def _value(self, name: str, field: dict[str, Any], scores: list[float]) -> Any:
        kind = field.get("type")
        if kind == "array":
            return [self._value(name, field.get("items", {}), [score]) for score in scores]
        if kind not in ("number", "boolean") or len(scores) != 1:
            found = f"field {name!r} is a {kind} for {len(scores)} steps"
            raise ValueError(f"{found}; take a float or a bool for one step, or a list of them")
        return scores[0] if kind == "number" else scores[0] >= self._threshold


def _shown(prompt: str) -> tuple[Any, int | None]:
    """Return a prompt's steps as a request, what came last behind them; and how many to judge."""
    steps = _elements(prompt, "earlier_step")
    if not steps:
        return json.loads(prompt), None
    task = "\n".join(_elements(prompt, "current_task")) or "(not given)"
    chat: list[Message] = [{"role": "user", "content": task}]
    for number, text in enumerate([*steps, "\n".join(_elements(prompt, "recent_context"))]):
        did, mark, came = text.partition('<message role="tool_return"')
        made = call(f"step_{number}", "act", json.dumps({"did": did}))
        chat.append({"role": "assistant", "content": None, "tool_calls": [made]})
        chat.append({"role": "tool", "tool_call_id": f"step_{number}", "content": mark + came})
    return {"messages": chat}, len(steps)


def _elements(text: str, tag: str) -> list[str]:
    return [part.partition(f"</{tag}>")[0].strip() for part in text.split(f"<{tag}>")[1:]]
