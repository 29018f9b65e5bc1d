"""AGORA shortens what an LLM agent sends to its model, by whole steps."""

from collections.abc import Collection
from importlib import import_module
from typing import Any, TypeVar

from agora import formats
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Compression, Decision, FallbackLevel, Reason
from agora.core.prices import PriceSheet, sheet_for
from agora.core.request import Observations
from agora.core.schedule import State
from agora.core.scorer import Scorer
from agora.core.tokens import EstimatedTokens, TokenCounter
from agora.core.trajectory import Query, Step, Trajectory
from agora.errors import AgoraError, MissingExtraError
from agora.formats import RuleViolation, make_request, recall_tool, validate
from agora.formats.sdk_objects import to_dicts
from agora.savings import Savings, savings, warn_unknown
from agora.scorers import load_scorer
from agora.session import Session

__version__ = "0.4.0"


def compress(
    messages: Any,
    *,
    model: str | None = None,
    format: str | None = None,
    system: object = None,
    tools: object = None,
    pins: Collection[int] = (),
    observations: Observations | None = None,
) -> Compression:
    """Return the messages to send instead, compressed with the defaults.

    `messages` may be in any of the six formats; the format is detected. They are
    not changed, and they are returned as they are if nothing can be gained. No messages make it
    raise. An unknown model is warned of once. `Compressor.compress` describes the options. A
    `Session` does more for a conversation: it knows what was sent before, and when.

    Raises:
        SettingError: A pin is not a valid step number.
        UnknownFormatError: `format` is not the name of a format.
    """
    if model:
        warn_unknown(model)
    return _DEFAULT.compress(
        messages,
        model=model,
        format=format,
        system=system,
        tools=tools,
        pins=pins,
        observations=observations,
    )


def parse(
    messages: Any,
    *,
    format: str | None = None,
    system: object = None,
    tools: object = None,
    thinking: bool | None = None,
    observations: Observations | None = None,
    counter: TokenCounter | None = None,
) -> Trajectory:
    """Return the trajectory in `messages`: the task, the steps and the user's text between them.

    The options are those of `Compressor.compress`. Tokens are counted by
    `counter`, or estimated.

    >>> trajectory = parse("[USER] find it [ASSISTANT] look [USER] a key lies here")
    >>> trajectory.steps[0].observation
    'a key lies here'
    >>> print(trajectory.recall(1))
    step 1
    look
    a key lies here

    Raises:
        UnknownFormatError: There is no such format, or none fits the messages.
        ParseError: The messages do not read as a trajectory.
    """
    request = make_request(
        to_dicts(messages),
        format=format,
        system=system,
        tools=to_dicts(tools),
        thinking=thinking,
        observations=observations,
    )
    return formats.parse(request, counter or EstimatedTokens()).trajectory


_DEFAULT = Compressor()
_Client = TypeVar("_Client")


def wrap(client: _Client, compressor: Compressor | None = None, **settings: Any) -> _Client:
    """Return a client like `client`, of openai or anthropic, whose requests are compressed.

    Chat completions, Responses and Messages; synchronous, asynchronous and streaming. The client
    passed in is not changed, and the connections are shared. A client that was wrapped already
    gets these settings instead of its own. `agora.savings(client)` returns the dollars and tokens
    it saved. A request that the provider refuses after an edit is sent again unchanged.

    Args:
        client: `OpenAI()`, `AsyncAnthropic()` or any variant of them for another cloud.
        compressor: Decides; the default one if not given.
        settings: Settings of `Compressor` by name, in addition to the compressor's own. With
            `shadow=True` every request is sent as it is, and only the savings are estimated.

    Raises:
        SettingError: It is not a client of openai or anthropic, or a setting is unknown or out of
            range.
    """
    # Not imported above: integrations stand on this module, and need packages of their own.
    clients = import_module("agora.integrations.clients")
    wrapped: _Client = clients.wrap(client, compressor, **settings)
    return wrapped


__all__ = [
    "AgoraError",
    "Budget",
    "Compression",
    "Compressor",
    "Decision",
    "EstimatedTokens",
    "FallbackLevel",
    "MissingExtraError",
    "PriceSheet",
    "Query",
    "Reason",
    "RuleViolation",
    "Savings",
    "Scorer",
    "Session",
    "State",
    "Step",
    "TokenCounter",
    "Trajectory",
    "__version__",
    "compress",
    "load_scorer",
    "parse",
    "recall_tool",
    "savings",
    "sheet_for",
    "validate",
    "wrap",
]
