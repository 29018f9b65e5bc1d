"""OpenAI Agents SDK: a filter on what each model call is sent."""

import asyncio
import logging
from typing import Any

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.integrations.compress_chat import FailOpen, is_bound, logged
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
    (`conversation_id`, `previous_response_id`) only new items are sent; those stay as they are. So
    does everything for a model that binds its thinking to the prompt, such as Claude by way of
    LiteLLM: an edit would invalidate the reasoning items that come after it.
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
        if is_bound(self._compressor, name):
            return given
        return await asyncio.to_thread(self._open, lambda: self._edited(data, name), given)

    def _edited(self, data: CallModelData[Any], name: str | None) -> ModelInputData:
        given = data.model_data
        tools = [_tool(tool) for tool in data.agent.tools]
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
