"""Everything AGORA is compared with, including doing nothing: a file and a row each."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agora_lab.methods.base import Messages, Method, MethodSettings, Shortened, SkipMethod

__all__ = [
    "ASKING",
    "NAMES",
    "PAPER",
    "Messages",
    "Method",
    "MethodSettings",
    "Shortened",
    "SkipMethod",
    "close",
    "method",
    "target_of",
]


@dataclass(frozen=True, slots=True)
class _Row:
    """A method's class in a module of this package, and the options of its name."""

    module: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    budgeted: bool = False
    """True if it is set to the `keep_ratio`."""
    asks: bool = False
    """True if it calls a language model itself."""


_ROWS = {
    "none": _Row("none", "NoCompression"),
    # The paper's baselines.
    "truncate": _Row("truncate", "Truncate"),
    "floor": _Row("floor", "Floor"),
    "random_step": _Row("agora_paper", "AgoraPaper", {"scorer": "random"}, budgeted=True),
    "observation_mask": _Row("observation_mask", "ObservationMask"),
    "observation_mask_10": _Row("observation_mask", "ObservationMask", {"window": 10}),
    "selective_context": _Row("selective_context", "SelectiveContext", budgeted=True),
    "long_llmlingua": _Row("llmlingua", "LongLLMLingua", budgeted=True),
    "llmlingua2": _Row("llmlingua", "LLMLingua2", budgeted=True),
    "llmlingua2_retrained": _Row("llmlingua", "LLMLingua2", {"retrained": True}, budgeted=True),
    "hiagent": _Row("hiagent", "HiAgent", asks=True),
    "agentdiet": _Row("agentdiet", "AgentDiet", asks=True),
    "acon": _Row("acon", "Acon", asks=True),
    # The paper's method and its ablations. Without its scorer it is `floor`; with a random one,
    # `random_step`.
    "agora_paper": _Row("agora_paper", "AgoraPaper", budgeted=True),
    "agora_no_floor": _Row("agora_paper", "AgoraPaper", {"k_recent": 0}, budgeted=True),
    "agora_hard_labels": _Row("agora_paper", "AgoraPaper", {"hard": True}, budgeted=True),
    # This library's default, and simple rules beside it.
    "agora": _Row("agora", "Agora", budgeted=True),
    "sliding_window": _Row("sliding_window", "SlidingWindow", budgeted=True),
    "commands_first": _Row("commands_first", "CommandsFirst", budgeted=True),
    "observation_mask_matched": _Row("observation_mask", "MatchedMask", budgeted=True),
    # Released packages, set to the `keep_ratio`.
    "langchain_matched": _Row("released", "LangChainClear", budgeted=True),
    "litellm_matched": _Row("released", "LiteLLMCompress", budgeted=True),
    "headroom_matched": _Row("released", "Headroom", budgeted=True),
}
NAMES = tuple(_ROWS)
ASKING = tuple(name for name, row in _ROWS.items() if row.asks)
"""Methods that ask a language model themselves."""
PAPER = tuple(name for name in NAMES if name != "observation_mask_10")
"""The methods of `agora lab paper`: the paper's, and ours and today's beside them."""


def method(name: str, settings: MethodSettings | None = None) -> Method:
    """Make a method. Its dependencies are imported only now.

    Args:
        name: One of `NAMES`, or `package.module:Class` for one of your own.
        settings: The settings that the comparison fixes.

    Raises:
        ValueError: There is no method with that name.
        SkipMethod: It cannot run here; the message gives the reason.
    """
    settings = settings or MethodSettings()
    row = _row(name)
    module = row.module if ":" in name else f"{__name__}.{row.module}"
    made: Method = getattr(importlib.import_module(module), row.kind)(
        settings, **{**row.options, **settings.options}
    )
    return made


def target_of(name: str, keep_ratio: float | None) -> float | None:
    """Return the target compression of a method at a `keep_ratio`, if it has one.

    >>> target_of("agora_paper", 0.25), target_of("floor", 0.25)
    (4.0, None)

    Raises:
        ValueError: There is no method with that name.
    """
    return 1 / keep_ratio if keep_ratio and _row(name).budgeted else None


def close(made: Method) -> None:
    """Stop the processes of a method, if it has any."""
    end = getattr(made, "close", None)
    if end is not None:
        end()


def _row(name: str) -> _Row:
    module, colon, kind = name.partition(":")
    if colon:
        return _Row(module, kind)
    if name not in _ROWS:
        raise ValueError(f"unknown method {name!r}; use one of {', '.join(NAMES)}")
    return _ROWS[name]
