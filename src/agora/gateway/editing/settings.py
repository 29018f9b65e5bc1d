"""How every body is compressed."""

from dataclasses import dataclass

from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.prices import PriceSheet
from agora.core.renditions.draft import Forms
from agora.core.request import Observations
from agora.core.schedule import CEILING
from agora.core.scorer import Scorer
from agora.core.tokens import TokenCounter
from agora.gateway.config import RECALL_AGENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorSettings:
    """How every body is compressed."""

    scorer: Scorer
    keep_ratio: float = 0.25
    k_recent: int = 2
    lines: bool = True
    min_tokens: int = 0
    """A prompt below this is left alone, unless the window forces an edit."""
    ceiling: float = CEILING
    keep_tools: tuple[str, ...] = ()
    changing_tools: tuple[str, ...] = ()
    reading_tools: tuple[str, ...] = ()
    repeats: bool = False
    schedule: str = "by_price"
    observations: Observations | None = None
    recall: bool = False
    recall_agents: tuple[str, ...] = RECALL_AGENTS
    """How the User-Agent of agents begins that recall is offered to."""
    depth: int = 64
    shadow: bool = False
    """Whether the names that an edit takes away are remembered, to see if they are used."""
    memory_bytes: int = 256 << 20
    """For conversations and for texts that were read. The texts are remembered for the process, so
    that the last editor made says how many."""

    @property
    def remembers(self) -> bool:
        """Whether conversations are remembered.

        Not where new messages say other things on their own than behind those before them: with a
        recall, or a user who is the world.
        """
        return not self.recall and self.observations != "user"

    def compressor(self, scorer: Scorer, sheet: PriceSheet, counter: TokenCounter) -> Compressor:
        """Return what compresses one prompt, at these prices."""
        return Compressor(
            scorer=scorer,
            budget=Budget(keep_ratio=self.keep_ratio),
            k_recent=self.k_recent,
            schedule="every_call" if self.schedule == "every_call" else "by_price",
            min_tokens=self.min_tokens,
            ceiling=self.ceiling,
            keep_tools=self.keep_tools,
            changing_tools=self.changing_tools,
            reading_tools=self.reading_tools,
            repeats=self.repeats,
            sheet=sheet,
            forms=Forms() if self.lines else None,
            counter=counter,
        )
