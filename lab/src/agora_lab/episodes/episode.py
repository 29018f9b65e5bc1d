"""An episode: the record of one task played by one backbone under one method.

A record holds nothing that varies between runs: no times, no machine. Playing
twice gives the same bytes, so any difference is a finding.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What identifies an episode, apart from its task."""

    environment: str
    backbone: str
    method: str
    seed: int = 0

    def key(self, task: str) -> str:
        """Return the key of a task's episode in this cell."""
        return f"{self.environment}|{self.backbone}|{self.method}|{self.seed}|{task}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One step of an episode: what the backbone was shown, said and did, and what came back."""

    sent: Sequence[int | Mapping[str, Any]]
    """The messages it was shown: a number is an index into the whole conversation, anything else
    is a message written by the method."""
    answer: str
    action: str
    observation: str
    reward: float
    valid: bool
    tokens_whole: int
    """The whole conversation, by our estimate."""
    tokens_sent: int
    """The part shown, by the same estimate."""
    input_tokens: int = 0
    """As counted by the backbone, if it counts."""
    cached_tokens: int = 0
    output_tokens: int = 0
    method_input_tokens: int = 0
    """Tokens of the method's own calls to a language model."""
    method_output_tokens: int = 0
    method_detail: str = ""
    finish: str = ""
    """The finish reason, if the backbone reports it; `length` if truncated. Absent in older
    records."""
    called: bool = False
    """Whether the action was a call of a tool and the observation its result. Absent in older
    records."""

    def messages(self, number: int) -> list[dict[str, Any]]:
        """Return what it added to the conversation as its step of that number."""
        if not self.called:
            return [
                {"role": "assistant", "content": self.answer},
                {"role": "user", "content": self.observation},
            ]
        name, _, arguments = self.action.partition(" ")
        key = f"call_{number}"
        function = {"name": name, "arguments": arguments}
        return [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": key, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": key, "content": self.observation},
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A task from start to finish, or to the step limit."""

    cell: Cell
    task: str
    system: str
    opening: str
    """The first user message: the task and the first observation."""
    moves: tuple[Move, ...]
    ended: str
    """`done` if the environment ended it, `steps` at the step limit."""

    @property
    def key(self) -> str:
        """The key of this episode in a run."""
        return self.cell.key(self.task)

    @property
    def reward(self) -> float:
        """The reward at the end."""
        return self.moves[-1].reward if self.moves else 0.0

    def conversation(self, moves: int) -> list[dict[str, Any]]:
        """Return the whole conversation before a move."""
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": self.system},
            {"role": "user", "content": self.opening},
        ]
        for number, move in enumerate(self.moves[:moves], start=1):
            messages += move.messages(number)
        return messages

    def shown(self, move: int) -> list[Mapping[str, Any]]:
        """Return the messages that the backbone saw before a move."""
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
        """Return the episode in a line."""
        found = json.loads(line)
        if found.pop("schema", None) != SCHEMA:
            raise ValueError(f"not an episode of schema {SCHEMA}")
        found["cell"] = Cell(**found["cell"])
        found["moves"] = tuple(Move(**move) for move in found["moves"])
        return cls(**found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the parts of an episode took. Kept apart from its record, since it varies."""

    key: str
    steps: int
    environment_s: float
    method_s: float
    backbone_s: float
    method_cpu_s: float = 0.0
    """CPU time of the method in this process; excludes a peer's own process."""
    method_ms: tuple[float, ...] = ()
    """How long each call of the method took. Absent in older records."""
