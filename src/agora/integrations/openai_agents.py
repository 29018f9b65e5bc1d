"""OpenAI Agents SDK: a filter on what each model call is sent."""

import asyncio
import logging
from typing import Any

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.integrations.compress_chat import FailOpen, is_bound, logged
from agora.integrations.items import compress_items, without_thinking
from agora.integrations.wire import Message

try:
    from agents import FunctionTool
    from agents.models import get_default_model
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise MissingExtraError(__name__, "openai-agents") from error


class AgoraFilter:
    """A filter for `RunConfig(call_model_input_filter=AgoraFilter())`.

    The run's items and the session keep everything. Where the provider holds the conversation
    (`conversation_id`, `previous_response_id`) only new items are sent; those stay as they are.
    """

    def __init__(self, compressor: Compressor | None = None, *, model: str | None = None) -> None:
        """Take `model` for the prices if `RunConfig.model` is set; else it is the agent's own."""
        self._compressor = compressor or Compressor()
        self._model = model
        self._open = FailOpen(logging.getLogger(__name__))

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the compressed input; scoring runs in a thread."""
        given = data.model_data
        name = self._model or _model_name(data.agent.model)

        def bare() -> ModelInputData:
            return ModelInputData(without_thinking(given.input), given.instructions)

        bound = is_bound(self._compressor, name)
        return await asyncio.to_thread(
            self._open,
            lambda: self._edited(data, name, bound=bound),
            given,
            bare if bound else None,
        )

    def _edited(self, data: CallModelData[Any], name: str | None, *, bound: bool) -> ModelInputData:
        given = data.model_data
        tools = [_tool(tool) for tool in data.agent.tools]
        if bound:
            # Claude, by way of LiteLLM: an edit costs the reasoning items that are older.
            found = compress_items(
                self._compressor, given.input, model=name, system=given.instructions, tools=tools
            )
            return given if found is None else ModelInputData(found[0], given.instructions)
        compression = self._compressor.compress(
            given.input,
            model=name,
            format="responses",
            system=given.instructions,
            tools=tools or None,
        )
        if not logged(compression).changed:
            return given
        return ModelInputData(input=compression.messages, instructions=given.instructions)


def _model_name(model: Any) -> str | None:
    if model is None:
        return get_default_model()
    return model if isinstance(model, str) else getattr(model, "model", None)


def _tool(tool: Any) -> Message:
    """Return a tool as it stands in the request; hosted ones have no schema of ours to count."""
    if not isinstance(tool, FunctionTool):
        return {"type": tool.name}
    return {
        "name": tool.name,
        "parameters": tool.params_json_schema,
        "strict": tool.strict_json_schema,
        "type": "function",
        "description": tool.description,
    }
