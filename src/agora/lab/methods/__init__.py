"""Everything AGORA is compared with, doing nothing included; one file each."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agora.lab.methods.base import Messages, Method, Shortened, SkipMethod

if TYPE_CHECKING:
    from agora.core.scorer import Scorer
    from agora.lab.backbones.base import Backbone
    from agora.lab.methods.selective_context import SelfInformation

__all__ = [
    "NAMES",
    "Messages",
    "Method",
    "Settings",
    "Shortened",
    "SkipMethod",
    "close",
    "method",
    "target_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What methods are made with; each takes of it what it needs."""

    keep_ratio: float = 0.25
    """How much should stay: `Chat.room` says of what."""
    model: str | None = None
    """The model that answers: for AGORA's prices, and for peers that count its tokens."""
    backbone: "Backbone | None" = None
    """The language model for those that ask one."""
    self_information: "SelfInformation | None" = None
    """The language model for Selective Context."""
    scorer: "Scorer | str | None" = None
    """AGORA's scorer, where its default is not meant: itself, its name, or a bundle's folder."""
    seed: int = 0
    """For what is left to chance."""
    weights: Path | None = None
    """A folder with the weights that LLMLingua needs."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the method's own class, by name."""


def method(name: str, settings: Settings | None = None) -> Method:
    """Return the method of that name; what it needs is imported now and not before.

    Where a method has a trigger or a window of its own, its plain name runs it
    as it was published or released, and `NAME_matched` at the `keep_ratio`.

    Raises:
        ValueError: there is none of that name.
        SkipMethod: it cannot be run here; the reason is in its text.
    """
    if name not in _MAKERS:
        raise ValueError(f"there is no method {name!r}; there are {', '.join(NAMES)}")
    made: Method = _MAKERS[name](settings or Settings())
    return made


def target_of(name: str, keep_ratio: float | None) -> float | None:
    """Return the compression that a method is set to by a `keep_ratio`, if it is set by it.

    >>> target_of("agora", 0.25), target_of("floor", 0.25)
    (4.0, None)

    Raises:
        ValueError: there is no method of that name.
    """
    if name not in _MAKERS:
        raise ValueError(f"there is no method {name!r}; there are {', '.join(NAMES)}")
    budgeted = name.endswith("_matched") or name.startswith(_BUDGETED)
    if not budgeted or not keep_ratio or name in _NO_BUDGET:
        return None
    return 1 / keep_ratio


_BUDGETED = ("random_step", "selective_context", "llmlingua2", "longllmlingua", "agora")
_NO_BUDGET = ("agora_paper_no_scorer",)


def close(made: Method) -> None:
    """End what a method may have started."""
    end = getattr(made, "close", None)
    if end is not None:
        end()


def _make(module: str, kind: str, settings: Settings, **own: Any) -> Any:
    made = getattr(importlib.import_module(f"agora.lab.methods.{module}"), kind)
    return made(**{**own, **settings.options})


def _maker(
    module: str, kind: str, *, matched: bool = True, **own: Any
) -> Callable[[Settings], Any]:
    def make(settings: Settings) -> Any:
        ratio = {"keep_ratio": settings.keep_ratio} if matched else {}
        return _make(module, kind, settings, **ratio, **own)

    return make


def _peer(module: str, kind: str, *, matched: bool) -> Callable[[Settings], Any]:
    def make(settings: Settings) -> Any:
        own: dict[str, Any] = {"keep_ratio": settings.keep_ratio} if matched else {}
        if settings.model and module != "langchain_clear":
            own["model"] = settings.model
        return _make(module, kind, settings, **own)

    return make


def _asking(module: str, kind: str, **own: Any) -> Callable[[Settings], Any]:
    def make(settings: Settings) -> Any:
        if settings.backbone is None:
            raise SkipMethod(f"{module} asks a language model, and no backbone was given")
        ratio = {} if module == "hiagent" else {"keep_ratio": settings.keep_ratio}
        return _make(module, kind, settings, backbone=settings.backbone, **ratio, **own)

    return make


def _filtering(level: str) -> Callable[[Settings], Any]:
    def make(settings: Settings) -> Any:
        if settings.self_information is None:
            raise SkipMethod(
                "selective_context needs a causal language model, and none was given; "
                "see LocalModel in agora.lab.methods.self_information"
            )
        return _make(
            "selective_context",
            "SelectiveContext",
            settings,
            source=settings.self_information,
            level=level,
            keep_ratio=settings.keep_ratio,
        )

    return make


def _lingua(kind: str) -> Callable[[Settings], Any]:
    def make(settings: Settings) -> Any:
        return _make(
            "llmlingua",
            kind,
            settings,
            weights=settings.weights,
            keep_ratio=settings.keep_ratio,
        )

    return make


def _agora(preset: str, *, scorer: str = "", **changed: Any) -> Callable[[Settings], Any]:
    """Return a maker of AGORA; `changed` are parameters of its compressor or of its budget."""

    def make(settings: Settings) -> Any:
        found = importlib.import_module("agora.lab.methods.agora")
        return found.made(
            preset,
            keep_ratio=settings.keep_ratio,
            scorer=settings.scorer or scorer or None,
            model=settings.model,
            seed=settings.seed,
            options={**changed, **settings.options},
        )

    return make


def _related(settings: Settings) -> Any:
    found = importlib.import_module("agora.lab.methods.relations")
    return found.RelatedAgora(_agora("every_call")(settings))


def _random(settings: Settings) -> Any:
    own = {"keep_ratio": settings.keep_ratio, "seed": settings.seed}
    return _make("random_step", "RandomStep", settings, **own)


_MAKERS: Mapping[str, Callable[[Settings], Any]] = {
    "none": _maker("none", "NoCompression", matched=False),
    "truncate": _maker("truncate", "Truncate", matched=False, tokens=2_048),
    "truncate_matched": _maker("truncate", "Truncate"),
    "floor": _maker("floor", "Floor", matched=False),
    # The floor grown to the budget: the newest steps that fit, which a scorer has to beat at its
    # own size.
    "floor_matched": _agora("every_call", scorer="recency", skeleton_share=0.0),
    "random_step": _random,
    "observation_mask": _maker("observation_mask", "ObservationMask", matched=False, window=10),
    "observation_mask_matched": _maker("observation_mask", "ObservationMask"),
    "selective_context": _filtering("phrase"),
    "selective_context_words": _filtering("word"),
    "selective_context_tokens": _filtering("token"),
    "selective_context_sentences": _filtering("sentence"),
    "llmlingua2": _lingua("LLMLingua2"),
    "longllmlingua": _lingua("LongLLMLingua"),
    "hiagent": _asking("hiagent", "HiAgent"),
    "agentdiet": _asking("agentdiet", "AgentDiet"),
    # Below 24 tokens a rewritten observation saves less than it risks.
    "agentdiet_matched": _asking("agentdiet", "AgentDiet", threshold_tokens=24),
    "acon": _asking("acon", "Acon"),
    "acon_matched": _asking("acon", "Acon", history_tokens=None),
    "langchain_clear_tool_uses": _peer("langchain_clear", "LangChainClear", matched=False),
    "langchain_clear_tool_uses_matched": _peer("langchain_clear", "LangChainClear", matched=True),
    "litellm_compress": _peer("litellm_compress", "LiteLLMCompress", matched=False),
    "litellm_compress_matched": _peer("litellm_compress", "LiteLLMCompress", matched=True),
    "headroom": _peer("headroom", "Headroom", matched=False),
    "headroom_matched": _peer("headroom", "Headroom", matched=True),
    "agora_paper": _agora("paper"),
    "agora": _agora("by_price"),
    "agora_every_call": _agora("every_call"),
    # One part of AGORA taken away or replaced; the paper's table 3, and the same for the default.
    "agora_paper_no_floor": _agora("paper", k_recent=0),
    "agora_paper_no_scorer": _agora("paper", limit=0, theta_hi=None),
    "agora_paper_random_scores": _agora("paper", scorer="random"),
    "agora_no_floor": _agora("by_price", k_recent=0),
    "agora_no_scorer": _agora("by_price", scorer="recency"),
    "agora_random_scores": _agora("by_price", scorer="random"),
    "agora_no_skeletons": _agora("by_price", skeleton_share=0.0),
    "agora_related_skeletons": _related,
    # What did best of the orders that were tried against the newest steps (grids/remedies.toml).
    "agora_novel": _agora("every_call", scorer="novel_per_token", skeleton_share=0.0),
}
NAMES = tuple(_MAKERS)
