"""Everything AGORA is compared with, including doing nothing; one file each."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agora import Forms
from agora_lab.methods.base import Messages, Method, Shortened, SkipMethod

if TYPE_CHECKING:
    from agora.core.request import Observations
    from agora.core.scorer import Scorer

__all__ = [
    "NAMES",
    "Messages",
    "Method",
    "MethodSettings",
    "Shortened",
    "SkipMethod",
    "close",
    "method",
    "target_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings:
    """The settings of methods; each uses those it needs."""

    keep_ratio: float = 0.25
    """How much to keep; see `Chat.room`."""
    model: str | None = None
    """The model that answers: for AGORA's prices, and for peers that count its tokens."""
    scorer: "Scorer | str | None" = None
    """AGORA's scorer, if not the default: an object, a name, or a bundle's folder."""
    seed: int = 0
    """For random choices."""
    observations: "Observations" = "user"
    """Which user messages are observations, for methods that ask: none where an agent calls
    tools."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the method's own class, by name."""


def method(name: str, settings: MethodSettings | None = None) -> Method:
    """Return the method with that name; its dependencies are imported only now.

    If a method has its own trigger or window, its plain name runs it as published
    or released, and `NAME_matched` runs it at the `keep_ratio`.

    Raises:
        ValueError: there is none with that name.
        SkipMethod: it cannot run here; the message gives the reason.
    """
    if name not in _MAKERS:
        raise ValueError(f"unknown method {name!r}; use one of {', '.join(NAMES)}")
    made: Method = _MAKERS[name](settings or MethodSettings())
    return made


def target_of(name: str, keep_ratio: float | None) -> float | None:
    """Return the target compression of a method at a `keep_ratio`, if it has one.

    >>> target_of("agora", 0.25), target_of("floor", 0.25)
    (4.0, None)

    Raises:
        ValueError: there is no method with that name.
    """
    if name not in _MAKERS:
        raise ValueError(f"unknown method {name!r}; use one of {', '.join(NAMES)}")
    budgeted = name.endswith("_matched") or name.startswith(_BUDGETED)
    if not budgeted or not keep_ratio or name in _NO_BUDGET:
        return None
    return 1 / keep_ratio


_BUDGETED = ("random_step", "agora")
_NO_BUDGET = ("agora_paper_no_scorer",)


def close(made: Method) -> None:
    """Stop anything a method may have started."""
    end = getattr(made, "close", None)
    if end is not None:
        end()


def _make(module: str, kind: str, settings: MethodSettings, **own: Any) -> Any:
    made = getattr(importlib.import_module(f"agora_lab.methods.{module}"), kind)
    return made(**{**own, **settings.options})


def _maker(
    module: str, kind: str, *, matched: bool = True, **own: Any
) -> Callable[[MethodSettings], Any]:
    def make(settings: MethodSettings) -> Any:
        ratio = {"keep_ratio": settings.keep_ratio} if matched else {}
        return _make(module, kind, settings, **ratio, **own)

    return make


def _peer(module: str, kind: str, *, matched: bool) -> Callable[[MethodSettings], Any]:
    def make(settings: MethodSettings) -> Any:
        own: dict[str, Any] = {"keep_ratio": settings.keep_ratio} if matched else {}
        if settings.model and module != "langchain_clear":
            own["model"] = settings.model
        return _make(module, kind, settings, **own)

    return make


def _agora(preset: str, *, scorer: str = "", **changed: Any) -> Callable[[MethodSettings], Any]:
    """Return a maker of AGORA; `changed` are parameters of its compressor or of its budget."""

    def make(settings: MethodSettings) -> Any:
        found = importlib.import_module("agora_lab.methods.agora")
        return found.made(
            preset,
            keep_ratio=settings.keep_ratio,
            scorer=settings.scorer or scorer or None,
            model=settings.model,
            seed=settings.seed,
            options={**changed, "observations": settings.observations, **settings.options},
        )

    return make


def _in_place(kind: str) -> Callable[[MethodSettings], Any]:
    def make(settings: MethodSettings) -> Any:
        return _make("in_place", kind, settings, observations=settings.observations)

    return make


def _newest(settings: MethodSettings) -> Any:
    own = {"keep_ratio": settings.keep_ratio, "observations": settings.observations}
    return _make("in_place", "Newest", settings, **own)


def _random(settings: MethodSettings) -> Any:
    own = {"keep_ratio": settings.keep_ratio, "seed": settings.seed}
    return _make("random_step", "RandomStep", settings, **own)


_MAKERS: Mapping[str, Callable[[MethodSettings], Any]] = {
    "none": _maker("none", "NoCompression", matched=False),
    "floor": _maker("floor", "Floor", matched=False),
    # The floor grown to the budget with the newest steps that fit: what a scorer has to beat at
    # its own size.
    "floor_matched": _newest,
    "random_step": _random,
    "observation_mask": _maker("observation_mask", "ObservationMask", matched=False, window=10),
    "observation_mask_matched": _maker("observation_mask", "ObservationMask"),
    "langchain_clear_tool_uses": _peer("langchain_clear", "LangChainClear", matched=False),
    "langchain_clear_tool_uses_matched": _peer("langchain_clear", "LangChainClear", matched=True),
    "litellm_compress": _peer("litellm_compress", "LiteLLMCompress", matched=False),
    "litellm_compress_matched": _peer("litellm_compress", "LiteLLMCompress", matched=True),
    "headroom": _peer("headroom", "Headroom", matched=False),
    "headroom_matched": _peer("headroom", "Headroom", matched=True),
    "agora_paper": _agora("paper"),
    "agora": _agora("by_price"),
    # The default's choice of what stays, made at every call whatever it costs.
    "agora_forms_worth": _agora("every_call", scorer="worth", forms=Forms()),
    # Ablations: one part of the paper's method removed or replaced, as in its table 3.
    "agora_paper_no_floor": _agora("paper", k_recent=0),
    "agora_paper_no_scorer": _agora("paper", scorer="recency", rho=0.0, theta_hi=1.0),
    "agora_paper_random_scores": _agora("paper", scorer="random"),
    # In place, for tool calls as for text; they take a share of what is outside the floor.
    "mask_results": _in_place("MaskResults"),
    "commands_first": _in_place("CommandsFirst"),
}
NAMES = tuple(_MAKERS)
PAPER = ("none", "floor", "random_step", "observation_mask", "agora")
"""The methods of `agora lab paper`."""
ASKING: tuple[str, ...] = ()
"""Methods that call a language model themselves."""
