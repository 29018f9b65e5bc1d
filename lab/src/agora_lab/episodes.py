"""Episodes as records on disk: what an agent saw, did and got, readable without playing.

An episode's record holds nothing that varies between runs, no times and no machine. Playing twice
gives the same bytes, so any difference is a finding. Times stand in a file of their own.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from agora import AgoraError

SCHEMA = 2
SETTINGS = "settings.json"
EPISODES, TIMINGS, FAILURES, PROMPTS = (
    "episodes.jsonl",
    "timings.jsonl",
    "failures.jsonl",
    "prompts.jsonl",
)


class RunError(AgoraError):
    """A run's folder that cannot be read or resumed."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"the run in {self.folder!r} {self.problem}"


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
    """Whether the action was a tool call and the observation its result."""

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

    def to_json(self) -> str:
        """Return the record as one line."""
        record = {"schema": SCHEMA, **asdict(self)}
        return json.dumps(record, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Return the episode in a line.

        Raises:
            ValueError: The line is not an episode of this schema.
        """
        values = json.loads(line)
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
    """The files of a run, open in one process at a time; every line is on disk when it returns."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Begin a run or resume it.

        Raises:
            RunError: The run has other settings, or another process is writing to it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = (folder / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise RunError(str(folder), "is being written by another process") from None
        self._agree(settings)
        for name in (EPISODES, TIMINGS, FAILURES, PROMPTS):
            _drop_partial_line(folder / name)

    def add(self, episode: Episode, timing: Timing) -> None:
        """Append an episode. Its timing is written first, so that every episode has one."""
        self.append(TIMINGS, asdict(timing))
        _append_line(self._folder / EPISODES, episode.to_json())

    def append(self, name: str, values: Mapping[str, Any]) -> None:
        """Append a line to one of the other files."""
        _append_line(self._folder / name, json.dumps(values, sort_keys=True))

    def close(self) -> None:
        """Let other processes write."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _agree(self, settings: Mapping[str, Any]) -> None:
        path = self._folder / SETTINGS
        wanted = json.loads(json.dumps(settings))
        if not path.exists():
            path.write_text(json.dumps(wanted, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            return
        present = read_settings(self._folder)
        names = sorted(present.keys() | wanted.keys())
        changed = [name for name in names if present.get(name) != wanted.get(name)]
        if changed:
            self.close()
            detail = "; ".join(
                f"{name}: {present.get(name)!r} then, {wanted.get(name)!r} now" for name in changed
            )
            raise RunError(
                str(self._folder), f"was started with other settings ({detail}); use another folder"
            )


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
    """Return the episodes of a run; an incomplete last line is skipped."""
    yield from map(Episode.from_json, _lines(folder / EPISODES))


def read_lines(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """Return the lines of one of a run's other files."""
    yield from map(json.loads, _lines(folder / name))


def _lines(path: Path) -> Iterator[bytes]:
    if path.exists():
        with path.open("rb") as file:
            yield from (line for line in file if line.endswith(b"\n"))


def _append_line(path: Path, line: str) -> None:
    with path.open("ab") as file:
        file.write(line.encode("utf-8", "surrogatepass") + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _drop_partial_line(path: Path) -> None:
    """Cut off the line that a killed process did not finish."""
    if path.exists():
        data = path.read_bytes()
        if not data.endswith(b"\n"):
            path.write_bytes(data[: data.rfind(b"\n") + 1])
