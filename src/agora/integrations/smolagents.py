"""smolagents: a model that is sent shorter messages; the agent's memory stays whole.

smolagents writes calls and observations as text, which is read as such where it is sent: by the
`client` of the model. A step callback would edit the memory, by which the agent plans.
"""

import copy
from types import ModuleType
from typing import TypeVar

from agora.compressor import Compressor
from agora.errors import MissingExtraError, SettingError
from agora.integrations.clients import wrap
from agora.savings import LEDGER

try:
    from smolagents.models import ApiModel
except ImportError as error:
    raise MissingExtraError(__name__, "smolagents") from error

M = TypeVar("M", bound=ApiModel)


def wrap_model(model: M, compressor: Compressor | None = None) -> M:
    """Return a model like `model` for `ToolCallingAgent` or `CodeAgent`.

    `agora.savings` of it returns the dollars and tokens that it saved.

    Raises:
        SettingError: The model's client is neither one of openai nor LiteLLM.
    """
    client = getattr(model, "client", None)
    shorter = copy.copy(model)
    if isinstance(client, ModuleType) and client.__name__ == "litellm":
        # Not imported above: only LiteLLM's own models need it.
        from agora.integrations.litellm import AgoraLogger

        shorter.client = AgoraLogger(compressor)
        setattr(shorter, LEDGER, shorter.client.agora_ledger)
        return shorter
    if not hasattr(client, "with_options"):
        needed = "an OpenAIModel, AzureOpenAIModel or LiteLLMModel"
        raise SettingError("model", f"a {type(model).__name__}", needed)
    shorter.client = wrap(client, compressor)
    setattr(shorter, LEDGER, getattr(shorter.client._client, LEDGER))
    return shorter
