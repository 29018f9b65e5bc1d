"""OpenAI Agents SDK: a filter on what each model call is sent."""

import asyncio
import logging
from typing import Any

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.integrations.compress_chat import FailOpen, logged
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
        return await asyncio.to_thread(self._open, lambda: self._edited(data), data.model_data)

    def _edited(self, data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        compression = self._compressor.compress(
            given.input,
            model=self._model or _model_name(data.agent.model),
            format="responses",
            system=given.instructions,
            tools=[_tool(tool) for tool in data.agent.tools] or None,
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
