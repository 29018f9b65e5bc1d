"""AGORA shortens what an LLM agent sends to its model, by whole steps."""

from collections.abc import Collection
from importlib import import_module
from typing import Any, TypeVar

from agora.adapters import Broken, recall_tool, validate
from agora.adapters.base import Observations
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Compression, Decision, Reason, Rung
from agora.core.prices import PriceSheet
from agora.errors import AgoraError
from agora.scorers import load_scorer

__version__ = "0.1.0"


def compress(
    messages: Any,
    *,
    model: str | None = None,
    format: str | None = None,
    system: object = None,
    tools: object = None,
    pins: Collection[int] = (),
    observations: Observations | None = None,
    idle_seconds: float | None = None,
    cold: Collection[int] = (),
) -> Compression:
    """Return the messages to send instead, compressed with the defaults. Never raises.

    `messages` may be in any of the five formats, which is found out. They are
    not changed; when there is nothing to gain they come back as they are.
    `Compressor.compress` says what the options mean.
    """
    return _DEFAULT.compress(
        messages,
        model=model,
        format=format,
        system=system,
        tools=tools,
        pins=pins,
        observations=observations,
        idle_seconds=idle_seconds,
        cold=cold,
    )


_DEFAULT = Compressor()
_Client = TypeVar("_Client")


def wrap(client: _Client, compressor: Compressor | None = None) -> _Client:
    """Return a client like `client`, of openai or anthropic, whose requests are compressed.

    Chat completions, Responses and Messages; synchronous, asynchronous and
    streaming. The client that is given stays as it is.
    """
    # Not imported above: integrations stand on this module, and need packages of their own.
    wrapped: _Client = import_module("agora.integrations.clients").wrap(client, compressor)
    return wrapped


__all__ = [
    "AgoraError",
    "Broken",
    "Budget",
    "Compression",
    "Compressor",
    "Decision",
    "PriceSheet",
    "Reason",
    "Rung",
    "__version__",
    "compress",
    "load_scorer",
    "recall_tool",
    "validate",
    "wrap",
]
