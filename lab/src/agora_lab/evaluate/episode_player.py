"""Plays one task: environment, method and backbone take turns until it ends."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from agora.core.tokens import EstimatedTokens
from agora_lab.agents import Backbone, prompt_text
from agora_lab.envs import Environment, World
from agora_lab.episodes.episode import Cell, Episode, Move, Timing
from agora_lab.methods.base import Method

_COUNTER = EstimatedTokens()
_CALL = re.compile(r"\w{1,80} \{.*\}", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Everything that takes part in the episodes of one cell."""

    cell: Cell
    world: World
    environment: Environment
    backbone: Backbone
    method: Method
    most_steps: int | None = None
    """Where an episode ends at the latest; defaults to the world's limit."""

    def play(self, task: str) -> tuple[Episode, Timing]:
        """Return the episode of a task, and how long its parts took."""
        world = self.world
        spent = _Stopwatch()
        with spent("environment"):
            start = self.environment.reset(task)
        system = world.instructions
        opening = f"{start.task}\n\n{start.observation}"
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": system},
            {"role": "user", "content": opening},
        ]
        moves: list[Move] = []
        ended = "steps"
        for _ in range(self.most_steps or world.most_steps):
            with spent("method"):
                shortened = self.method.shorten(messages)
            with spent("backbone"):
                answer = self.backbone.answer(shortened.messages)
            action = world.extract(answer.text)
            with spent("environment"):
                outcome = self.environment.step(action)
            moves.append(
                Move(
                    sent=_refer(shortened.messages, messages),
                    answer=answer.text,
                    action=action,
                    observation=outcome.observation,
                    reward=outcome.reward,
                    valid=outcome.valid,
                    tokens_whole=_COUNTER.count(prompt_text(messages)),
                    tokens_sent=_COUNTER.count(prompt_text(shortened.messages)),
                    input_tokens=answer.input_tokens,
                    cached_tokens=answer.cached_tokens,
                    output_tokens=answer.output_tokens,
                    method_input_tokens=shortened.input_tokens,
                    method_output_tokens=shortened.output_tokens,
                    method_detail=shortened.detail,
                    finish=answer.finish,
                    called=world.calls and _CALL.fullmatch(action) is not None,
                )
            )
            if outcome.terminated:
                ended = "done"
                break
            messages += moves[-1].messages(len(moves))
        episode = Episode(
            cell=self.cell,
            task=task,
            system=system,
            opening=opening,
            moves=tuple(moves),
            ended=ended,
        )
        return episode, spent.timing(episode.key, len(moves))


def _refer(
    sent: Sequence[Mapping[str, Any]], whole: Sequence[Mapping[str, Any]]
) -> list[int | Mapping[str, Any]]:
    """Replace messages that are part of the whole conversation by their index in it.

    Indices only increase. Of two equal messages the later one is meant, since
    methods mostly keep the newest.

    >>> _refer([{"content": "b"}, {"content": "c"}], [{"content": "a"}, {"content": "b"}])
    [1, {'content': 'c'}]
    """
    found: list[int | Mapping[str, Any]] = []
    end = len(whole)
    for message in reversed(sent):
        at = next((n for n in range(end - 1, -1, -1) if whole[n] == message), None)
        if at is None:
            found.append(dict(message))
        else:
            found.append(at)
            end = at
    found.reverse()
    return found


class _Stopwatch:
    """Sums the seconds spent in each part, and records those of each call of the method."""

    def __init__(self) -> None:
        self._spent = dict.fromkeys(("environment", "method", "backbone"), 0.0)
        self._part = ""
        self._start = self._start_cpu = 0.0
        self._method_cpu = 0.0
        self._method_ms: list[float] = []

    def __call__(self, part: str) -> "_Stopwatch":
        self._part = part
        return self

    def __enter__(self) -> None:
        self._start, self._start_cpu = perf_counter(), process_time()

    def __exit__(self, *_: object) -> None:
        seconds = perf_counter() - self._start
        self._spent[self._part] += seconds
        if self._part == "method":
            self._method_cpu += process_time() - self._start_cpu
            self._method_ms.append(round(1_000 * seconds, 3))

    def timing(self, key: str, steps: int) -> Timing:
        return Timing(
            key=key,
            steps=steps,
            environment_s=round(self._spent["environment"], 6),
            method_s=round(self._spent["method"], 6),
            backbone_s=round(self._spent["backbone"], 6),
            method_cpu_s=round(self._method_cpu, 6),
            method_ms=tuple(self._method_ms),
        )
