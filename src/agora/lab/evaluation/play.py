"""Play a task: environment, method and backbone by turns, until it is over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from agora.core.tokens import EstimatedTokens
from agora.lab.backbones import Backbone, prompt_text
from agora.lab.environments import Environment, World
from agora.lab.episodes.episode import Cell, Episode, Move, Timing
from agora.lab.methods.base import Method

_COUNTER = EstimatedTokens()


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Everything that takes part in the episodes of one cell."""

    cell: Cell
    world: World
    environment: Environment
    backbone: Backbone
    method: Method
    most_steps: int | None = None
    """Where an episode is cut off; where the world says when not given."""

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
                )
            )
            if outcome.terminated:
                ended = "done"
                break
            messages.append({"role": "assistant", "content": answer.text})
            messages.append({"role": "user", "content": outcome.observation})
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
    """Write messages that stand in the whole conversation as their places in it.

    Places only go up, so two messages that say the same are told apart by their order.

    >>> _refer([{"content": "b"}, {"content": "c"}], [{"content": "a"}, {"content": "b"}])
    [1, {'content': 'c'}]
    """
    found: list[int | Mapping[str, Any]] = []
    start = 0
    for message in sent:
        at = next((n for n in range(start, len(whole)) if whole[n] == message), None)
        if at is None:
            found.append(dict(message))
        else:
            found.append(at)
            start = at + 1
    return found


class _Stopwatch:
    """Adds up the seconds spent on each part."""

    def __init__(self) -> None:
        self._spent = dict.fromkeys(("environment", "method", "backbone"), 0.0)
        self._part = ""
        self._start = 0.0

    def __call__(self, part: str) -> "_Stopwatch":
        self._part = part
        return self

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(self, *_: object) -> None:
        self._spent[self._part] += perf_counter() - self._start

    def timing(self, key: str, steps: int) -> Timing:
        return Timing(
            key=key,
            steps=steps,
            environment_s=round(self._spent["environment"], 6),
            method_s=round(self._spent["method"], 6),
            backbone_s=round(self._spent["backbone"], 6),
        )
