"""An episode: one task played by one backbone under one method, as a record that can be read.

A record holds nothing that differs from one run to the next: no times, no
machine. Played twice it is the same bytes, so a difference is a finding.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What an episode is compared by, apart from its task."""

    environment: str
    backbone: str
    method: str
    seed: int = 0

    def key(self, task: str) -> str:
        """Return what names the episode of a task in this cell."""
        return f"{self.environment}|{self.backbone}|{self.method}|{self.seed}|{task}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One step of an episode: what the backbone was shown, said and did, and what came back."""

    sent: Sequence[int | Mapping[str, Any]]
    """The messages it was shown: a number stands for the message at that place of the whole
    conversation, anything else is a message as the method wrote it."""
    answer: str
    action: str
    observation: str
    reward: float
    valid: bool
    tokens_whole: int
    """The whole conversation, by our estimate."""
    tokens_sent: int
    """What was shown, by the same estimate."""
    input_tokens: int = 0
    """What the backbone counted, where it counts."""
    cached_tokens: int = 0
    output_tokens: int = 0
    method_input_tokens: int = 0
    """What the method itself asked of a language model."""
    method_output_tokens: int = 0
    method_detail: str = ""
    finish: str = ""
    """Why the answer ended, where the backbone says; `length` when it was cut off. Records from
    before this was written down have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A task from its start to its end, or to where it was cut off."""

    cell: Cell
    task: str
    system: str
    opening: str
    """The first user message: the task and the first observation."""
    moves: tuple[Move, ...]
    ended: str
    """`done` when the environment said so, `steps` when they ran out."""

    @property
    def key(self) -> str:
        """Return what names this episode in a run."""
        return self.cell.key(self.task)

    @property
    def reward(self) -> float:
        """The reward at the end."""
        return self.moves[-1].reward if self.moves else 0.0

    def conversation(self, moves: int) -> list[dict[str, Any]]:
        """Return the whole conversation before the move of that index."""
        messages = [
            {"role": "system", "content": self.system},
            {"role": "user", "content": self.opening},
        ]
        for move in self.moves[:moves]:
            messages.append({"role": "assistant", "content": move.answer})
            messages.append({"role": "user", "content": move.observation})
        return messages

    def shown(self, move: int) -> list[Mapping[str, Any]]:
        """Return the messages that the backbone saw before the move of that index."""
        whole = self.conversation(move)
        return [whole[one] if isinstance(one, int) else one for one in self.moves[move].sent]

    def to_json(self) -> str:
        """Return the record as one line."""
        return json.dumps(
            {"schema": SCHEMA, **asdict(self)},
            ensure_ascii=False,
            separators=(",", ":"),
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Return the episode that a line holds."""
        found = json.loads(line)
        if found.pop("schema", None) != SCHEMA:
            raise ValueError(f"not an episode of schema {SCHEMA}")
        found["cell"] = Cell(**found["cell"])
        found["moves"] = tuple(Move(**move) for move in found["moves"])
        return cls(**found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Where the seconds of an episode went. Kept apart from its record: it differs every time."""

    key: str
    steps: int
    environment_s: float
    method_s: float
    backbone_s: float
    method_cpu_s: float = 0.0
    """What the method took of this process's processor time; a peer's own process is not in it."""
    method_ms: tuple[float, ...] = ()
    """How long each call of the method took. Records from before this was kept have none."""
