"""Plays one task: the method shortens, the agent answers, the environment acts, until it ends.

Environments, agents and methods take seconds to start. A process keeps what it started and uses it
for its next episode, so the functions at the end of this module can run as tasks on any machine.
"""

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from agora import EstimatedTokens
from agora_lab.agents import Backbone, backbone, prompt_text
from agora_lab.agents.client import ModelClient, Sampling
from agora_lab.agents.examples import WithExamples
from agora_lab.agents.purse import Prices, Purse
from agora_lab.envs import Environment, World, world
from agora_lab.envs.atoms import atoms_of
from agora_lab.episodes import Cell, Episode, Move, Timing
from agora_lab.evaluate.method_choice import MethodChoice
from agora_lab.methods import Method, MethodSettings, SkipMethod, method

SCRIPTED = "scripted"
"""The environment's scripted agent."""
SCORED = ("agora_paper", "agora_no_floor")
"""The methods that use the experiment's scorer."""
_COUNTER = EstimatedTokens()
_CALL = re.compile(r"\w{1,80} \{.*\}", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How language models are asked."""

    base_url: str = ""
    max_tokens: int = 128
    """Most tokens of an answer."""
    prices: tuple[float, float] | None = None
    """Dollars per million tokens of input and output, for a model without a price sheet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeTask:
    """An episode to play."""

    cell: Cell
    task: str
    steps: int
    """Most steps."""
    agent: AgentOptions
    scorer: str = ""
    purse: Purse | None = None
    key: str = field(default="", repr=False)
    """The key of an endpoint. It travels with the task, and is written nowhere."""

    @property
    def name(self) -> str:
        """The key of the episode in its run."""
        return self.cell.key(self.task)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The record of an episode, or the reason why its method cannot run here."""

    episode: Episode | None = None
    timing: Timing | None = None
    skipped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """The environment, backbone and method of a cell."""

    cell: Cell
    world: World
    environment: Environment
    backbone: Backbone
    method: Method
    steps: int | None = None
    """Most steps; by default the environment's own limit."""

    def play(self, task: str) -> tuple[Episode, Timing]:
        """Return the episode of a task, and the time of its parts."""
        world, watch = self.world, _Stopwatch()
        with watch.part("environment"):
            start = self.environment.reset(task)
        opening = f"{start.task}\n\n{start.observation}"
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": world.instructions},
            {"role": "user", "content": opening},
        ]
        moves: list[Move] = []
        ended = "steps"
        for _ in range(self.steps or world.most_steps):
            with watch.part("method"):
                shortened = self.method.shorten(messages)
            with watch.part("backbone"):
                answer = self.backbone.answer(shortened.messages)
            action = world.extract(answer.text)
            with watch.part("environment"):
                outcome = self.environment.step(action)
            moves.append(
                Move(
                    sent=as_references(shortened.messages, messages),
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
            system=world.instructions,
            opening=opening,
            moves=tuple(moves),
            ended=ended,
        )
        return episode, watch.timing(episode.key, len(moves))


def play_episode(task: EpisodeTask) -> Played:
    """Play an episode with this process's environments, agents and methods. A Ray task."""
    cell = task.cell
    try:
        model = _model(cell.backbone, cell.seed, task.agent, task.key, task.purse)
        player = Player(
            cell=cell,
            world=world(cell.environment),
            environment=_environment(cell.environment),
            backbone=_backbone(cell, model),
            method=started_method(cell, task.scorer, model),
            steps=task.steps,
        )
        episode, timing = player.play(task.task)
    except SkipMethod as reason:
        return Played(skipped=str(reason))
    except Exception:
        # The environment may be in an undefined state.
        with contextlib.suppress(Exception):
            _environment(cell.environment).close()
        _environment.cache_clear()
        raise
    return Played(episode=episode, timing=timing)


def as_references(
    sent: Sequence[Mapping[str, Any]], whole: Sequence[Mapping[str, Any]]
) -> list[int | Mapping[str, Any]]:
    """Replace messages of the whole conversation by their index in it.

    Indices only increase. Of two equal messages the later one is meant, since methods mostly keep
    the newest.

    >>> as_references([{"content": "b"}, {"content": "c"}], [{"content": "a"}, {"content": "b"}])
    [1, {'content': 'c'}]
    """
    references: list[int | Mapping[str, Any]] = []
    end = len(whole)
    for message in reversed(sent):
        at = next((n for n in range(end - 1, -1, -1) if whole[n] == message), None)
        if at is None:
            references.append(dict(message))
        else:
            references.append(at)
            end = at
    references.reverse()
    return references


@functools.cache
def _environment(name: str) -> Environment:
    return world(name).make()


@functools.lru_cache(maxsize=16)
def _scripted(spec: str, environment: str) -> Backbone:
    return backbone(spec, environment=environment)


@functools.lru_cache(maxsize=4)
def _model_of(
    spec: str, seed: int, agent: AgentOptions, key: str, cap: tuple[float, Path | None] | None
) -> ModelClient | None:
    """Return the client of a language model; None for other agents."""
    kind = spec.partition(":")[0]
    if kind not in ("openai", "llama"):
        return None
    own: dict[str, Any] = {"sampling": Sampling(seed=seed, max_tokens=agent.max_tokens)}
    if kind == "openai":
        own["base_url"] = agent.base_url or None
        own["prices"] = Prices(*agent.prices) if agent.prices else None
        own["api_key"] = key or None
        own["purse"] = Purse(*cap) if cap else None
    made = backbone(spec, **own)
    assert isinstance(made, ModelClient)  # noqa: S101 - both kinds are
    return made


def _model(
    spec: str, seed: int, agent: AgentOptions, key: str, purse: Purse | None
) -> ModelClient | None:
    cap = (purse.max_dollars, purse.path) if purse else None
    return _model_of(spec, seed, agent, key, cap)


def _backbone(cell: Cell, model: ModelClient | None) -> Backbone:
    if model is None:
        return _scripted(cell.backbone, cell.environment)
    return WithExamples(model, world(cell.environment).examples)


@functools.lru_cache(maxsize=64)
def _method(
    name: str, environment: str, seed: int, scorer: str, model: ModelClient | None
) -> Method:
    choice = MethodChoice.parse(name)
    own = {"scorer": scorer} if scorer and choice.method in SCORED else {}
    settings = MethodSettings(
        **{
            "seed": seed,
            "observations": "none" if world(environment).calls else "user",
            "atom": atoms_of(environment),
            "llm": model,
            **own,
            **choice.settings,
        }
    )
    return method(choice.method, settings)


def started_method(cell: Cell, scorer: str, model: ModelClient | None = None) -> Method:
    """Return the method of a cell, started once in this process.

    Args:
        cell: Names the method and its environment.
        scorer: The scorer of the paper's method, if it names none.
        model: The language model that a method may ask.

    Raises:
        SkipMethod: The method cannot run here.
    """
    return _method(cell.method, cell.environment, cell.seed, scorer, model)


class _Stopwatch:
    """Sums the seconds spent in each part."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(("environment", "method", "backbone"), 0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self._seconds[name] += perf_counter() - start

    def timing(self, key: str, steps: int) -> Timing:
        return Timing(
            key=key,
            steps=steps,
            environment_s=round(self._seconds["environment"], 6),
            method_s=round(self._seconds["method"], 6),
            backbone_s=round(self._seconds["backbone"], 6),
        )
