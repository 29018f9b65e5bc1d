"""LP-FT: train the head on frozen outputs first, then everything, as the paper does.

The module to be trained has two parts: `encode`, from a batch to one row per
example, and `head`, from such rows to one logit each. In the first phase only
the head learns, so each example is encoded once; in the second everything does.
An interrupted run resumes where it stopped and ends with the same weights.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agora.errors import MissingExtraError
from agora.scorers.encoder import Calibration
from agora_lab.labels import LabelsError
from agora_lab.train.metrics import Ranking

try:
    import numpy as np
    import torch
    from safetensors.torch import load, save
    from sklearn.linear_model import LogisticRegression
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError(__name__, "train-encoders", "agora-lab") from error

if TYPE_CHECKING:
    from rich.progress import Progress

_STATE = "state.json"
_ROWS_EVERY = 10
"""Steps between rows of the curve within an epoch."""
_PROBED = 32
"""Batch size where no gradient is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a scorer is trained; the defaults are the paper's schedule (appendix B).

    The paper does not mention weight decay and early stopping. The first is AdamW's
    default; `patience=None` runs all epochs. The best weights by validation loss are
    kept either way, including those of the head alone.
    """

    head_epochs: int = 5
    head_rate: float = 2e-4
    full_epochs: int = 4
    full_rate: float = 1e-5
    batch: int = 16
    warmup: float = 0.1
    """The share of a phase's steps in which the rate rises; then it falls as a cosine."""
    validation: float = 0.2
    """The share of tasks held out (`questions.held_out`)."""
    seed: int = 42
    weight_decay: float = 0.01
    patience: int | None = 2
    """After how many epochs without a lower validation loss a phase ends."""
    like_length: int = 8
    """Within so many batches examples are put together by length, so that little is padded.

    1 leaves them as they were shuffled.
    """
    checkpoint_steps: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Examples in columns."""

    inputs: Sequence[Any]
    """Whatever `collate` makes a batch of."""
    labels: Sequence[float]
    """Soft: between 0 and 1."""
    weights: Sequence[float]
    """Weights in the loss."""
    calibrating: Sequence[float]
    """Weights in the calibration: how many such pairs there really are."""
    lengths: Sequence[int]
    """Approximate lengths, to batch similar ones together."""

    def __len__(self) -> int:
        """Return how many examples there are."""
        return len(self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The result of training. The module itself has the best weights."""

    calibration: Calibration
    logits: tuple[float, ...]
    """Of the validation examples, before calibration."""
    curve: tuple[Mapping[str, Any], ...]
    """Rows of phase, epoch, step, seconds, train loss, validation loss and AUC."""
    stopped: Literal["epochs", "seconds"]
    """Whether it finished (or stopped early), or ran out of time."""
    steps: int
    seconds: float


def train(
    module: nn.Module,
    examples: Data,
    validation: Data,
    recipe: Recipe | None = None,
    *,
    collate: Callable[[Sequence[Any]], Any],
    folder: Path | None = None,
    seconds: float | None = None,
    progress: "Progress | None" = None,
) -> Trained:
    """Train a module by LP-FT and return its calibration and its curve.

    `module` has `head`, a module from rows to logits (n or n x 1), and
    `encode(batch)`, the rows of a batch that `collate` made from inputs. With
    `folder`, checkpoints are written there (safetensors and JSON) and a run that
    was stopped goes on. With `seconds`, spent over all runs together, it stops
    in time and says so; called again with more it goes on. A `progress` is shown
    by whoever made it. The same arguments give the same weights, on the same
    machine and with the same number of threads.

    Raises:
        LabelsError: there is nothing to train on, or the folder holds another training.
    """
    recipe = recipe or Recipe()
    for name, data in (("train on", examples), ("validate with", validation)):
        if len({label >= 0.5 for label in data.labels}) < 2:
            raise LabelsError(
                "labels",
                f"are all the same in what is to {name} ({len(data):,} pairs); label more logs",
            )
    with _deterministic(recipe.seed):
        run = _Run(module, examples, validation, recipe, collate, folder, seconds, progress)
        return run.go()


class _OutOfTimeError(Exception):
    """The seconds are spent. Caught in this module."""


class _Run:
    """One training: where it is, and what it needs to go on from there."""

    def __init__(
        self,
        module: nn.Module,
        examples: Data,
        validation: Data,
        recipe: Recipe,
        collate: Callable[[Sequence[Any]], Any],
        folder: Path | None,
        seconds: float | None,
        progress: "Progress | None",
    ) -> None:
        self.module = module
        self.examples, self.validation = examples, validation
        self.recipe, self.collate = recipe, collate
        self.folder, self.most_seconds, self.progress = folder, seconds, progress
        self.start = time.monotonic()
        self.curve: list[dict[str, Any]] = []
        self.phase, self.step, self.wait, self.steps = 0, 0, 0, 0
        self.losses: list[float] = []
        self.best_loss = math.inf
        self.best: dict[str, Tensor] = {}
        self.best_file = ""
        self.spent = 0.0
        self.kept: dict[str, Tensor] = {}
        self.fingerprint = self._fingerprint()

    @property
    def seconds(self) -> float:
        return self.spent + time.monotonic() - self.start

    def go(self) -> Trained:
        resumed = self._load()
        stopped: Literal["epochs", "seconds"] = "epochs"
        try:
            for phase in (0, 1):
                if phase >= self.phase:
                    self._phase(phase, resumed if phase == self.phase else None)
        except _OutOfTimeError:
            stopped = "seconds"
        if stopped == "seconds":
            # The current weights may be better than those of the last whole epoch.
            # Checked after the checkpoint, so that a resumed run is not affected.
            self._validate(f"{_PHASES[self.phase]}, out of time")
        self._use(self.best)
        logits = self._logits(self.phase)
        return Trained(
            calibration=calibrate(logits, self.validation.labels, self.validation.calibrating),
            logits=tuple(logits),
            curve=tuple(self.curve),
            stopped=stopped,
            steps=self.steps,
            seconds=self.seconds,
        )

    def _total(self, phase: int) -> int:
        epochs = (self.recipe.head_epochs, self.recipe.full_epochs)[phase]
        return epochs * self._epoch_steps

    @property
    def _epoch_steps(self) -> int:
        return math.ceil(len(self.examples) / self.recipe.batch)

    def _phase(self, phase: int, resumed: dict[str, Tensor] | None) -> None:
        """Go through one phase, from its start or from where `resumed` is of."""
        total = self._total(phase)
        if total == 0:
            return
        rate = (self.recipe.head_rate, self.recipe.full_rate)[phase]
        self.module.requires_grad_(phase == 1)
        self._head.requires_grad_(True)
        learning = [p for p in self.module.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(
            learning, lr=rate, weight_decay=self.recipe.weight_decay, fused=True
        )
        bar = self.progress.add_task(_PHASES[phase], total=total) if self.progress else None
        if resumed is None:
            self.phase, self.step, self.wait = phase, 0, 0
            self.losses = []
            if phase == 1:
                # The full model has to beat what the head alone reached.
                self._keep()
            torch.manual_seed(self.recipe.seed + phase)
        if phase == 0:
            self._probe(self.examples, "examples")
            self._probe(self.validation, "validation")
        if resumed is not None:
            _put(optimizer, resumed)
            torch.set_rng_state(resumed["rng"])
        batches: list[list[int]] = []
        while self.step < total:
            if self.progress and bar is not None:
                self.progress.update(bar, completed=self.step)
            epoch, at = divmod(self.step, self._epoch_steps)
            if at == 0 or not batches:
                batches = self._batches(phase, epoch)
            if self.most_seconds is not None and self.seconds >= self.most_seconds:
                self._save(optimizer)
                raise _OutOfTimeError
            for group in optimizer.param_groups:
                group["lr"] = rate * schedule(self.step, total, self.recipe.warmup)
            self._train_mode(phase)
            logits = self._forward(phase, batches[at])
            loss: Any = self._loss(logits, self.examples, batches[at])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            self.losses.append(float(loss.detach()))
            self.step += 1
            self.steps += 1
            if self.step % self._epoch_steps == 0:
                better = self._validate(_PHASES[phase])
                self.wait = 0 if better else self.wait + 1
                if self.recipe.patience is not None and self.wait >= self.recipe.patience:
                    break
            elif len(self.losses) >= _ROWS_EVERY:
                self._row(_PHASES[phase])
            if self.step % self.recipe.checkpoint_steps == 0:
                self._save(optimizer)
        if self.progress and bar is not None:
            self.progress.update(bar, completed=total)
        # The next phase starts from the best of this one.
        self._use(self.best)

    @property
    def _head(self) -> nn.Module:
        head = self.module.head
        assert isinstance(head, nn.Module)  # noqa: S101
        return head

    def _train_mode(self, phase: int) -> None:
        self.module.train(phase == 1)
        self._head.train()

    def _batches(self, phase: int, epoch: int) -> list[list[int]]:
        """Return the places of an epoch's batches: a function of seed, phase and epoch only."""
        chance = torch.Generator().manual_seed(1_000 * (self.recipe.seed + 1) + 100 * phase + epoch)
        order = torch.randperm(len(self.examples), generator=chance).tolist()
        size = self.recipe.batch
        window = size * max(1, self.recipe.like_length)
        batches: list[list[int]] = []
        for start in range(0, len(order), window):
            near = order[start : start + window]
            if self.recipe.like_length > 1:
                near.sort(key=lambda at: self.examples.lengths[at])
            batches += [near[at : at + size] for at in range(0, len(near), size)]
        mixed = torch.randperm(len(batches), generator=chance).tolist()
        return [batches[at] for at in mixed]

    def _probe(self, data: Data, name: str) -> None:
        """Encode every example once, longest first, and keep that beside the checkpoints."""
        file = self.folder and self.folder / f"{name}-{self.fingerprint[:12]}.safetensors"
        if file is not None and file.is_file():
            self.kept[name] = load(file.read_bytes())["rows"]
            return
        self.module.eval()
        order = sorted(range(len(data)), key=lambda at: -data.lengths[at])
        rows: list[Tensor] = []
        bar = self.progress.add_task(f"encode {name}", total=len(order)) if self.progress else None
        with torch.no_grad():
            for start in range(0, len(order), _PROBED):
                batch = [data.inputs[at] for at in order[start : start + _PROBED]]
                rows += self._encode(self.collate(batch))
                if self.progress and bar is not None:
                    self.progress.update(bar, completed=len(rows))
        back = torch.tensor(order).argsort()
        self.kept[name] = torch.stack(rows)[back].contiguous()
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, save({"rows": self.kept[name]}))

    def _encode(self, batch: Any) -> Tensor:
        module: Any = self.module
        found: Tensor = module.encode(batch)
        return found

    def _forward(self, phase: int, places: Sequence[int], *, validating: bool = False) -> Tensor:
        if phase == 0:
            rows = self.kept["validation" if validating else "examples"][list(places)]
        else:
            data = self.validation if validating else self.examples
            rows = self._encode(self.collate([data.inputs[at] for at in places]))
        logits: Tensor = self._head(rows)
        return logits.reshape(len(places))

    def _loss(self, logits: Tensor, data: Data, places: Sequence[int]) -> Tensor:
        labels = torch.tensor([data.labels[at] for at in places], dtype=logits.dtype)
        weights = torch.tensor([data.weights[at] for at in places], dtype=logits.dtype)
        losses = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        return (weights * losses).mean()

    def _logits(self, phase: int) -> list[float]:
        """Return what the module says of the validation examples, without dropout."""
        self.module.eval()
        lengths = self.validation.lengths
        order = sorted(range(len(self.validation)), key=lambda at: -lengths[at])
        found = [0.0] * len(order)
        with torch.no_grad():
            for start in range(0, len(order), _PROBED):
                places = order[start : start + _PROBED]
                for at, logit in zip(
                    places, self._forward(phase, places, validating=True).tolist(), strict=True
                ):
                    found[at] = logit
        return found

    def _validate(self, name: str) -> bool:
        """Put a row with the validation into the curve; tell whether it is the best so far."""
        logits = self._logits(self.phase)
        places = range(len(logits))
        loss = float(self._loss(torch.tensor(logits), self.validation, places))
        auc = Ranking(self.validation.labels, logits).auc(np.array(self.validation.calibrating))
        self._row(name, loss, auc)
        if loss >= self.best_loss:
            return False
        self.best_loss = loss
        self._keep()
        return True

    def _keep(self) -> None:
        self.best = {name: value.clone() for name, value in self._learning().items()}
        self.best_file = ""

    def _learning(self) -> dict[str, Tensor]:
        """Return the weights that this phase changes."""
        named = self.module.named_parameters()
        return {name: value.detach() for name, value in named if value.requires_grad}

    def _row(self, name: str, loss: float | None = None, auc: float | None = None) -> None:
        self.curve.append(
            {
                "phase": name,
                "step": self.step,
                "epoch": round(self.step / self._epoch_steps, 3),
                "seconds": round(self.seconds, 1),
                "train_loss": float(np.mean(self.losses)) if self.losses else None,
                "validation_loss": loss,
                "validation_auc": auc,
            }
        )
        self.losses = []

    def _use(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, value in self.module.named_parameters():
                if name in weights:
                    value.copy_(weights[name])

    def _fingerprint(self) -> str:
        columns = [
            (list(data.labels), list(data.weights), list(data.lengths))
            for data in (self.examples, self.validation)
        ]
        # Bytes are summed, not numbers: that sum does not depend on its order, so on the threads.
        sums = [
            (name, int(value.detach().contiguous().view(torch.uint8).sum(dtype=torch.int64)))
            for name, value in self.module.named_parameters()
        ]
        said = json.dumps([asdict(self.recipe), columns, sums])
        return hashlib.sha256(said.encode()).hexdigest()

    def _save(self, optimizer: torch.optim.Optimizer) -> None:
        """Write everything needed to resume, then the small file that commits it."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        mark = f"{self.phase}-{self.step}"
        inner = {
            f"{place}.{name}": value
            for place, values in optimizer.state_dict()["state"].items()
            for name, value in values.items()
        }
        now, inside = f"weights-{mark}.safetensors", f"optimizer-{mark}.safetensors"
        _write(self.folder / now, save(self._learning()))
        _write(self.folder / inside, save({**inner, "rng": torch.get_rng_state()}))
        if self.best and not self.best_file:
            self.best_file = f"best-{mark}.safetensors"
            _write(self.folder / self.best_file, save(self.best))
        state = {
            "fingerprint": self.fingerprint,
            "phase": self.phase,
            "step": self.step,
            "steps": self.steps,
            "wait": self.wait,
            "best_loss": self.best_loss if math.isfinite(self.best_loss) else None,
            "losses": self.losses,
            "seconds": self.seconds,
            "weights": now,
            "optimizer": inside,
            "best": self.best_file,
            "curve": self.curve,
        }
        _write(self.folder / _STATE, json.dumps(state).encode())
        for file in self.folder.glob("*-*-*.safetensors"):
            if file.name not in (now, inside, self.best_file):
                file.unlink()

    def _load(self) -> dict[str, Tensor] | None:
        """Return the optimizer's state of a checkpoint, everything else put back in its place."""
        if self.folder is None or not (self.folder / _STATE).is_file():
            return None
        state = json.loads((self.folder / _STATE).read_bytes())
        if state["fingerprint"] != self.fingerprint:
            raise LabelsError(
                str(self.folder),
                "holds a training with another recipe or other labels; use another folder",
            )
        self.phase, self.step, self.wait = state["phase"], state["step"], state["wait"]
        self.steps = state["steps"]
        self.best_loss = math.inf if state["best_loss"] is None else state["best_loss"]
        self.losses, self.curve = state["losses"], state["curve"]
        self.spent, self.best_file = state["seconds"], state["best"]
        self._use(load((self.folder / state["weights"]).read_bytes()))
        if self.best_file:
            self.best = load((self.folder / self.best_file).read_bytes())
        return load((self.folder / state["optimizer"]).read_bytes())


_PHASES = ("head", "full")


def schedule(step: int, steps: int, warmup: float) -> float:
    """Return the share of the rate at a step: up in a line, then down as half a cosine.

    >>> [round(schedule(step, 10, 0.2), 2) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.04]
    """
    rising = round(warmup * steps)
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


def calibrate(
    logits: Sequence[float], labels: Sequence[float], weights: Sequence[float]
) -> Calibration:
    """Return the line (Platt's) that makes probabilities of logits, for soft labels too."""
    x = np.asarray(logits, float)[:, None]
    y = np.asarray(labels, float)
    w = np.asarray(weights, float)
    kinds = np.concatenate([np.ones(len(y)), np.zeros(len(y))])
    counts = np.concatenate([w * y, w * (1 - y)])
    fitted = LogisticRegression(C=1e6, max_iter=1_000).fit(
        np.concatenate([x, x]), kinds, sample_weight=counts
    )
    return Calibration(float(fitted.coef_[0][0]), float(fitted.intercept_[0]))


def _put(optimizer: torch.optim.Optimizer, found: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in found.items():
        place, _, name = key.partition(".")
        if name:
            state.setdefault(int(place), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _write(path: Path, data: bytes) -> None:
    """Replace a file atomically."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


@contextmanager
def _deterministic(seed: int) -> Iterator[None]:
    """Make randomness and kernels deterministic, and restore the caller's state."""
    before = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before)
