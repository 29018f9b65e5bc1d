"""Trains a causal language model on lessons, from checkpoint to checkpoint.

Which lesson comes when follows from the seed, and the learning rate from how many tokens were
read, so a run that was stopped and resumed ends with the weights of one that was not.
"""

import copy
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import cos, pi
from pathlib import Path
from typing import Any, Self

from agora.errors import MissingExtraError
from agora_lab.journal import Journal, read_lines
from agora_lab.teaching.lessons import LessonError
from agora_lab.teaching.sequences import TokenSequence

try:
    import torch
except ImportError as error:
    raise MissingExtraError(__name__, "judge", "agora-lab") from error

CHECKPOINT, CURVE = "checkpoint.pt", "curve.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """What decides which weights come out."""

    tokens: int
    """How many tokens to read in all; the learning rate ends there."""
    rate: float = 3e-4
    warm_up: float = 0.05
    """The share of the tokens over which the learning rate rises."""
    batch: int = 1
    """Lessons between two updates."""
    frozen_layers: int = 0
    """How many of the lower layers stay as they are. The word vectors always do."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What decides when training stops and what is written meanwhile, but not the weights."""

    minutes: float | None = None
    checkpoint_minutes: float = 5.0
    validate_minutes: float = 10.0
    remembered_tokens: int = 400_000
    """For how many tokens of lessons what the frozen layers make of them is kept in memory: from
    the second epoch on only the others are computed."""


@dataclass(slots=True)
class Progress:
    """How far training has come."""

    step: int = 0
    tokens: int = 0
    """Read so far, over all epochs."""
    minutes: float = 0.0
    cpu_minutes: float = 0.0
    """What of them the process had a processor for: the measure on a shared machine."""


class Training:
    """A model in training, and the folder it is kept in."""

    def __init__(
        self,
        model: Any,
        lessons: Sequence[TokenSequence],
        folder: Path,
        settings: TrainingSettings,
        *,
        validation: Sequence[TokenSequence] = (),
    ) -> None:
        """Begin training, or resume it from the folder's checkpoint.

        Raises:
            LessonError: there are no lessons, or the checkpoint is of other settings or lessons.
        """
        if not lessons:
            raise LessonError(str(folder), "has no lessons to be trained on")
        self.model = model
        self.progress = Progress()
        self._lessons = lessons
        self._validation = validation
        self._folder = folder
        self._settings = settings
        freeze(model, settings.frozen_layers)
        own = [one for one in model.parameters() if one.requires_grad]
        self._optimizer = torch.optim.AdamW(
            own, lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
        )
        self._order = _Order(len(lessons), settings.seed)
        self._states = FrozenStates(model, settings.frozen_layers)
        self._load()

    @property
    def finished(self) -> bool:
        """Whether all tokens were read."""
        return self.progress.tokens >= self._settings.tokens

    def record(self) -> dict[str, Any]:
        """Return the settings and how far training has come, for the student's record."""
        return {"settings": asdict(self._settings), "progress": asdict(self.progress)}

    def run(self, pace: Pace, tick: Callable[[int, str], None] | None = None) -> None:
        """Train until all tokens were read or the minutes are over, and write a checkpoint.

        `tick` is called after each update with the tokens read and a note.
        """
        began = saved = validated = time.monotonic()
        self._states.room = pace.remembered_tokens
        clock = _Clock(self.progress)
        self.model.train()
        with Curve(self._folder, self.progress.step) as curve:
            while not self.finished:
                clock.read()
                if pace.minutes is not None and time.monotonic() - began > 60 * pace.minutes:
                    break
                loss, tokens = self.update()
                curve({**asdict(self.progress), "loss": loss})
                if tick:
                    tick(tokens, f"loss {loss:.3f}")
                now = time.monotonic()
                if self._validation and now - validated > 60 * pace.validate_minutes:
                    validated = now
                    curve({**asdict(self.progress), "validation": self.validate()})
                if now - saved > 60 * pace.checkpoint_minutes:
                    saved = now
                    self.save()
            clock.read()
            if self._validation:
                curve({**asdict(self.progress), "validation": self.validate()})
        self.save()

    def update(self) -> tuple[float, int]:
        """Learn from the next lessons; return the mean loss per target token, and tokens read."""
        settings = self._settings
        first = self.progress.step * settings.batch
        batch = [self._lessons[self._order[first + n]] for n in range(settings.batch)]
        count = sum(len(one.labels) for one in batch)
        for group in self._optimizer.param_groups:
            group["lr"] = rate_at(self.progress.tokens / settings.tokens, settings)
        total = 0.0
        for one in batch:
            loss = self._states.summed_loss(one) / count
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        own = self._optimizer.param_groups[0]["params"]
        torch.nn.utils.clip_grad_norm_(own, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        tokens = sum(len(one.token_ids) for one in batch)
        self.progress.step += 1
        self.progress.tokens += tokens
        return total, tokens

    @torch.no_grad()
    def validate(self) -> float:
        """Return the mean loss per target token on the lessons kept for validation."""
        self.model.eval()
        total = sum(float(summed_loss(self.model, one)) for one in self._validation)
        self.model.train()
        return total / sum(len(one.labels) for one in self._validation)

    def save(self) -> None:
        """Write a checkpoint; an interrupted write leaves the earlier one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f"{CHECKPOINT}.{os.getpid()}"
        learnt = {n: p.detach() for n, p in self.model.named_parameters() if p.requires_grad}
        torch.save(
            {
                "learnt": learnt,
                "optimizer": self._optimizer.state_dict(),
                "progress": asdict(self.progress),
                "settings": asdict(self._settings),
                "lessons": len(self._lessons),
            },
            draft,
        )
        os.replace(draft, self._folder / CHECKPOINT)

    def _load(self) -> None:
        path = self._folder / CHECKPOINT
        if not path.exists():
            return
        found = torch.load(path, weights_only=True)
        now = {**asdict(self._settings), "lessons": len(self._lessons)}
        then = {**found["settings"], "lessons": found["lessons"]}
        changed = sorted(name for name in now if now[name] != then.get(name))
        if changed:
            said = "; ".join(f"{n}: {then.get(n)!r} then, {now[n]!r} now" for n in changed)
            raise LessonError(
                str(path), f"was trained with other settings ({said}); use another folder"
            )
        self.model.load_state_dict(found["learnt"], strict=False)
        self._optimizer.load_state_dict(found["optimizer"])
        self.progress = Progress(**found["progress"])


def summed_loss(model: Any, one: TokenSequence) -> torch.Tensor:
    """Return the summed cross-entropy of what a sequence should predict.

    Logits are computed only there: those of every token would take longer than a layer.
    """
    states = _read(model.model, one, input_ids=torch.tensor([one.token_ids]))
    return _loss(model, states, one)


class FrozenStates:
    """What the frozen layers of a model make of lessons, which stays the same while it learns."""

    def __init__(self, model: Any, layers: int, *, room: int = 0) -> None:
        self._model = model
        self._lower = part_of(model.model, slice(layers), ends=False)
        self._upper = part_of(model.model, slice(layers, None), ends=True)
        self.room = room
        """Tokens whose states may still be kept."""
        self._kept: dict[int, torch.Tensor] = {}

    def summed_loss(self, one: TokenSequence) -> torch.Tensor:
        """Return the loss of a sequence, which has to live as long as this."""
        states = self._kept.get(id(one))
        if states is None:
            with torch.no_grad():
                states = _read(self._lower, one, input_ids=torch.tensor([one.token_ids]))
            if len(one.token_ids) <= self.room:
                self.room -= len(one.token_ids)
                self._kept[id(one)] = states
        return _loss(self._model, _read(self._upper, one, inputs_embeds=states), one)


def part_of(body: Any, layers: slice, *, ends: bool) -> Any:
    """Return some layers of a model as a model that shares their weights.

    Only one that `ends` the whole normalises what comes out.
    """
    part = copy.copy(body)
    # The copy shares its table of modules with the whole until it has its own.
    part._modules = dict(body._modules)
    part.layers = body.layers[layers]
    if not ends:
        part.norm = torch.nn.Identity()
    return part


def _read(body: Any, one: TokenSequence, **given: torch.Tensor) -> torch.Tensor:
    states: torch.Tensor = body(
        position_ids=torch.tensor([one.positions]),
        attention_mask=mask_of(one),
        use_cache=False,
        **given,
    ).last_hidden_state
    return states


def _loss(model: Any, states: torch.Tensor, one: TokenSequence) -> torch.Tensor:
    logits = model.lm_head(states[0][torch.tensor(one.predicts)])
    return torch.nn.functional.cross_entropy(logits, torch.tensor(one.labels), reduction="sum")


def mask_of(one: TokenSequence) -> torch.Tensor | None:
    """Return which tokens each token may see; none where each sees all before it."""
    if not one.branches:
        return None
    count = len(one.token_ids)
    seen = torch.ones(count, count, dtype=torch.bool).tril()
    for branch in one.branches:
        seen[branch.start : branch.end, branch.after : branch.start] = False
    return seen[None, None]


def freeze(model: Any, layers: int) -> None:
    """Keep the word vectors and the lower layers from learning."""
    model.requires_grad_(True)
    model.get_input_embeddings().requires_grad_(False)
    for layer in model.model.layers[:layers]:
        layer.requires_grad_(False)


def rate_at(share: float, settings: TrainingSettings) -> float:
    """Return the learning rate after a share of the tokens: a rise, then half a cosine.

    >>> [round(rate_at(x, TrainingSettings(tokens=1, rate=1.0)), 3) for x in (0.025, 0.05, 1)]
    [0.5, 1.0, 0.0]
    """
    if share < settings.warm_up:
        return settings.rate * max(share, 1e-3) / settings.warm_up
    left = (share - settings.warm_up) / (1 - settings.warm_up)
    return settings.rate * (1 + cos(pi * min(1.0, left))) / 2


class _Order:
    """The order of the lessons: every epoch a new one, the same for the same seed."""

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._seed = seed
        self._epoch = -1
        self._now: list[int] = []

    def __getitem__(self, at: int) -> int:
        epoch, place = divmod(at, self._count)
        if epoch != self._epoch:
            self._epoch, self._now = epoch, list(range(self._count))
            random.Random(f"{self._seed}|{epoch}").shuffle(self._now)
        return self._now[place]


class _Clock:
    """Adds the time since it was made to that of earlier runs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._wall = time.monotonic() - 60 * progress.minutes
        self._cpu = time.process_time() - 60 * progress.cpu_minutes

    def read(self) -> None:
        self._progress.minutes = (time.monotonic() - self._wall) / 60
        self._progress.cpu_minutes = (time.process_time() - self._cpu) / 60


class Curve:
    """Appends to the loss curve; lines after the checkpoint that is resumed from are dropped."""

    def __init__(self, folder: Path, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / CURVE
        if path.exists():
            kept = [line for line in read_lines(path) if json.loads(line)["step"] <= step]
            path.write_bytes(b"".join(kept))
        self._journal = Journal(path)

    def __call__(self, record: dict[str, Any]) -> None:
        """Append a record."""
        self._journal.add(json.dumps(record).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()
