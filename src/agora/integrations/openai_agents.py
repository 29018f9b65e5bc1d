"""OpenAI Agents SDK: a filter on the input of each model call."""

import asyncio
from typing import Any

from agora.compressor import Compressor
from agora.core.binding import binds
from agora.core.compression import Compression
from agora.errors import MissingExtraError
from agora.integrations.base import Shortener

try:
    from agents import FunctionTool, RunHooks
    from agents.models import get_default_model
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise MissingExtraError(__name__, "openai-agents") from error


class AgoraFilter(RunHooks[Any]):
    """A filter for `RunConfig(call_model_input_filter=...)`; as `hooks=` it also counts dollars.

    The run's items and the session keep everything. Where the provider holds the conversation
    (`conversation_id`, `previous_response_id`) only new items are sent; those stay as they are. So
    does everything for a model that binds its thinking to the prompt, such as Claude by way of
    LiteLLM: an edit would invalidate the reasoning items that come after it.
    """

    def __init__(self, compressor: Compressor | None = None, *, model: str | None = None) -> None:
        """Take `model` for the prices if `RunConfig.model` is set; else it is the agent's own."""
        self._shortener = Shortener(compressor)
        self.agora_ledger = self._shortener.ledger
        self._model = model

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the shorter input; the choice is made in a thread."""
        given = data.model_data
        name = self._model or _model_name(data.agent.model)
        if binds(name):
            return given
        compression = await asyncio.to_thread(
            self._shortener.attempt, lambda: self._compressed(data, name), None
        )
        if compression is None:
            return given
        self._shortener.wait(data.agent.name, compression, name)
        if not compression.changed:
            return given
        return ModelInputData(input=compression.messages, instructions=given.instructions)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002
        """Count the call by the usage in its answer."""
        usage = response.usage
        details = usage.input_tokens_details
        counts = {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": details and details.model_dump(),
            "output_tokens": usage.output_tokens,
        }
        self._shortener.came(agent.name, counts, answer=response.output)

    def _compressed(self, data: CallModelData[Any], name: str | None) -> Compression:
        given = data.model_data
        return self._shortener.shorten(
            given.input,
            model=name,
            format="responses",
            system=given.instructions,
            tools=[_tool(tool) for tool in data.agent.tools] or None,
        )


def _model_name(model: Any) -> str | None:
    if model is None:
        return get_default_model()
    return model if isinstance(model, str) else getattr(model, "model", None)


def _tool(tool: Any) -> dict[str, Any]:
    """Return a tool as in the request; a hosted one has no schema here to count."""
    if not isinstance(tool, FunctionTool):
        return {"type": tool.name}
    return {
        "name": tool.name,
        "parameters": tool.params_json_schema,
        "strict": tool.strict_json_schema,
        "type": "function",
        "description": tool.description,
    }
