"""Episodes as records on disk: prompts, actions, observations and rewards.

A record holds no times and no machine, so the same episode gives the same bytes again. Times have a
file of their own.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from agora_lab.errors import ProblemError
from agora_lab.jsonl import append, open_lines, read_lines

SCHEMA = 2
SETTINGS = "settings.json"
EPISODES, TIMINGS, FAILURES, PROMPTS = (
    "episodes.jsonl",
    "timings.jsonl",
    "failures.jsonl",
    "prompts.jsonl",
)


class RunError(ProblemError):
    """A run's folder that cannot be read or resumed."""

    form = "the run in {subject!r} {problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """An environment, the agent that plays in it, and the method that shortens its prompts."""

    environment: str
    backbone: str
    method: str
    seed: int = 0

    def key(self, task: str) -> str:
        """Return the key of a task's episode in this cell."""
        return f"{self.environment}|{self.backbone}|{self.method}|{self.seed}|{task}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One step of an episode: the prompt, the answer, the action and its outcome."""

    sent: Sequence[int | Mapping[str, Any]]
    """The prompt. A number is an index into the whole conversation; anything else is a message
    written by the method."""
    answer: str
    action: str
    observation: str
    reward: float
    valid: bool
    tokens_whole: int
    """Estimated tokens of the whole conversation."""
    tokens_sent: int
    """Estimated tokens of the prompt."""
    input_tokens: int = 0
    """As counted by the backbone; 0 if it counts none."""
    cached_tokens: int = 0
    output_tokens: int = 0
    method_input_tokens: int = 0
    """Tokens of the method's own calls to a language model."""
    method_output_tokens: int = 0
    method_detail: str = ""
    finish: str = ""
    """The finish reason, if the backbone reports it; `length` if truncated."""
    called: bool = False
    """True if the action was a tool call and the observation its result."""

    def messages(self, number: int) -> list[dict[str, Any]]:
        """Return the messages that it adds to the conversation as the step of that number."""
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
    """A task from its start to its end, or to the step limit."""

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
        """Return the prompt before a move."""
        whole = self.conversation(move)
        return [whole[one] if isinstance(one, int) else one for one in self.moves[move].sent]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the episode in a record.

        Raises:
            ValueError: The record is not an episode of this schema.
        """
        values = dict(record)
        if values.pop("schema", None) != SCHEMA:
            raise ValueError(f"not an episode of schema {SCHEMA}")
        values["cell"] = Cell(**values["cell"])
        values["moves"] = tuple(Move(**move) for move in values["moves"])
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the parts of an episode took."""

    key: str
    steps: int
    environment_s: float
    method_s: float
    backbone_s: float


class RunWriter:
    """The files of a run, open in one process at a time."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Begin a run or resume it. A run may grow: more tasks, methods and labels.

        Raises:
            RunError: The run has other settings.
            BusyError: Another process is writing to it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._files = ExitStack()
        self._open: dict[str, BinaryIO] = {}
        self._lines(EPISODES)
        try:
            self._agree(json.loads(json.dumps(settings)))
        except RunError:
            self.close()
            raise

    def add(self, episode: Episode, timing: Timing) -> None:
        """Append an episode. Its timing is written first, so that every episode has one."""
        self.append(TIMINGS, asdict(timing))
        append(self._lines(EPISODES), episode.to_dict())

    def append(self, name: str, values: Mapping[str, Any]) -> None:
        """Append a line to one of the other files."""
        append(self._lines(name), values)

    def close(self) -> None:
        """Let other processes write."""
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lines(self, name: str) -> BinaryIO:
        if name not in self._open:
            self._open[name] = self._files.enter_context(open_lines(self._folder / name))
        return self._open[name]

    def _agree(self, wanted: Mapping[str, Any]) -> None:
        path = self._folder / SETTINGS
        if path.exists():
            present = read_settings(self._folder)
            names = sorted(present.keys() | wanted.keys())
            changed = [n for n in names if not _grows(present.get(n), wanted.get(n))]
            if changed:
                detail = "; ".join(
                    f"{name}: {present.get(name)!r} then, {wanted.get(name)!r} now"
                    for name in changed
                )
                raise RunError(
                    str(self._folder),
                    f"was started with other settings ({detail}); use another folder",
                )
        path.write_text(json.dumps(wanted, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _grows(before: Any, after: Any) -> bool:
    """Return True if settings are as before, or a run with them holds all of the run before.

    >>> _grows({"tasks": ["a"], "steps": 30}, {"tasks": ["a", "b"], "steps": 30})
    True
    >>> _grows({"seed": 47}, {"seed": 48})
    False
    """
    if isinstance(before, dict) and isinstance(after, dict):
        shared = all(
            _grows(value, after.get(name)) or (name == "tasks" and _more(value, after.get(name)))
            for name, value in before.items()
        )
        return shared and before.keys() <= after.keys()
    if isinstance(before, list) and isinstance(after, list):
        return set(map(str, before)) <= set(map(str, after))
    return bool(before == after)


def _more(before: Any, after: Any) -> bool:
    return isinstance(before, int) and isinstance(after, int) and before <= after


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings a run was started with.

    Raises:
        RunError: There is no run in the folder.
    """
    try:
        settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(str(folder), f"has no readable {SETTINGS}") from error
    return settings


def read_episodes(folder: Path) -> Iterator[Episode]:
    """Yield the episodes of a run; an incomplete last line is skipped."""
    yield from map(Episode.from_dict, read_lines(folder / EPISODES))
