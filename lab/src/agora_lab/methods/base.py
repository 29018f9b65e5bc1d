"""The protocol of a method: a way to shorten a prompt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agora import Scorer, Step
from agora.paper import Atom

if TYPE_CHECKING:
    from agora_lab.agents.client import ModelClient

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings:
    """The settings that a comparison fixes for all its methods."""

    keep_ratio: float = 0.25
    """The share of the prompt to keep: 0.25 is the paper's nominal 4x."""
    model: str | None = None
    """The model that answers: for AGORA's prices, and for peers that count its tokens."""
    llm: "ModelClient | None" = None
    """The language model that methods may ask themselves. Its tokens are charged to them."""
    scorer: Scorer | str | None = None
    """AGORA's scorer, if not the default: an object, a name, or a bundle's folder."""
    atom: Callable[[Step], Atom] | None = None
    """The environment's rule for the text of a step that the paper's scorer reads."""
    seed: int = 0
    """For random choices."""
    observations: Literal["user", "none"] | None = "user"
    """`user` if the agent acts by text, `none` if it calls tools."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the method's own class, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """The result of a method."""

    messages: Messages
    input_tokens: int = 0
    """Tokens of the method's own calls to a language model, added to its bill."""
    output_tokens: int = 0
    detail: str = ""
    """Why nothing was omitted, if so."""


class Method(Protocol):
    """Shortens an agent's messages before they are sent.

    A class whose first argument is a `MethodSettings`; further arguments are its own options.
    """

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages to send. The input is not changed.

        The same messages give the same result: a method may cache, but only to be faster.
        """
        ...


class SkipMethod(Exception):  # noqa: N818 - not an error: the cell is listed with its reason
    """A method that cannot run here, with the reason."""
