"""Train the paper's pair classifier on any encoder, and write it as a bundle."""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agora.errors import BundleError, MissingExtraError
from agora.scorers.atoms import SIDE_CHARACTERS
from agora.scorers.bundle import Bundle, write_bundle
from agora.scorers.cross_encoder import KIND
from agora.scorers.encoder import (
    CALIBRATION,
    INPUTS,
    MODEL,
    TOKENIZER,
    TOKENS,
    Encoder,
    sealed,
    tokenizer_of,
)
from agora_lab.labels import LabelsError
from agora_lab.train.export import Parity, export, parity, simulate_int8
from agora_lab.train.lpft import Data, Recipe, Trained, train
from agora_lab.train.metrics import Metrics, measure
from agora_lab.train.pairs import Draw, Pairs, pairs_of, real_weights, training_weights
from agora_lab.train.questions import Question, held_out

try:
    import torch
    from torch import Tensor, nn
    from transformers import AutoModel
except ImportError as error:
    raise MissingExtraError(__name__, "train-encoders", "agora-lab") from error

if TYPE_CHECKING:
    from rich.progress import Progress

_COMPARED = 300
"""Number of held-out pairs on which the export is compared with the trained module."""

_AT_ONCE = 16

Tokens = tuple[list[int], list[int]]
"""The token ids of a pair, and the segment of each."""


class CrossEncoder(nn.Module):
    """An encoder with the paper's classification head on its first token."""

    def __init__(self, encoder: nn.Module, *, seed: int) -> None:
        """Put a fresh head on an encoder of transformers. The seed says which."""
        super().__init__()
        config: Any = encoder.config
        self.encoder = encoder
        self.inputs = INPUTS if getattr(config, "type_vocab_size", 0) > 1 else INPUTS[:2]
        width = config.hidden_size
        dropout = getattr(config, "hidden_dropout_prob", 0.1)
        self.head = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Dropout(dropout),
            nn.Linear(width, 1),
        )
        chance = torch.Generator().manual_seed(seed)
        for part in self.head:
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.02, generator=chance)
                nn.init.zeros_(part.bias)

    def encode(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the first token of each pair, as the encoder sees it."""
        rows: Tensor = self.encoder(**batch).last_hidden_state[:, 0]
        return rows

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return one logit per pair, for tensors in the order of `inputs`."""
        logits: Tensor = self.head(self.encode(dict(zip(self.inputs, tensors, strict=True))))
        return logits


def load_encoder(folder: Path) -> nn.Module:
    """Return the encoder in a folder of `config.json` and safetensors; none of its code is run.

    Raises:
        BundleError: there is none.
    """
    try:
        encoder: Any = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            attn_implementation="eager",
        )
    except (OSError, ValueError) as error:
        raise BundleError(
            str(folder), "holds no encoder: it needs config.json and model.safetensors"
        ) from error
    if hasattr(encoder, "pooler"):
        # Trained for another purpose, and absent from most encoders in safetensors form.
        encoder.pooler = None
    found: nn.Module = encoder.float()
    return found


def collate_for(module: CrossEncoder, padding: int) -> Callable[[Sequence[Tokens]], dict[str, Any]]:
    """Return a function that makes a padded batch of tokenised pairs."""

    def collate(pairs: Sequence[Tokens]) -> dict[str, Any]:
        longest = max(len(ids) for ids, _ in pairs)
        columns = {
            "input_ids": [ids + [padding] * (longest - len(ids)) for ids, _ in pairs],
            "attention_mask": [[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in pairs],
            "token_type_ids": [side + [0] * (longest - len(side)) for _, side in pairs],
        }
        return {name: torch.tensor(columns[name]) for name in module.inputs}

    return collate


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A bundle, and how it was trained."""

    bundle: Bundle
    metrics: Metrics
    """Of the exported scorer, on all measured pairs of held-out tasks."""
    parity: Parity
    trained: Trained
    pairs: Mapping[str, int]
    """How many pairs were trained on, validated with and measured; `needed_*` of them needed."""


def _module(folder: Path, seed: int) -> tuple[CrossEncoder, Any]:
    """Return the module to train, and what makes batches for it."""
    module = CrossEncoder(load_encoder(folder), seed=seed)
    simulate_int8(module.encoder)
    config: Any = module.encoder.config
    return module, collate_for(module, config.pad_token_id or 0)


def train_cross_encoder(
    questions: Iterable[Question],
    encoder_folder: Path,
    recipe: Recipe | None = None,
    *,
    out: Path,
    tokens: int = TOKENS,
    folder: Path | None = None,
    seconds: float | None = None,
    progress: "Progress | None" = None,
    about: Mapping[str, Any] | None = None,
) -> Result:
    """Train on the labels, export, compare, measure and write the bundle to `out`.

    `encoder_folder` has `config.json`, `model.safetensors` and `tokenizer.json`. Training, early
    stopping and calibration look at a sample of the pairs that were not needed; the metrics are
    over all pairs of held-out tasks. Checkpoints go to `folder`, training stops after `seconds`,
    and `about` goes into `metrics.json`.

    Raises:
        LabelsError: there are too few tasks, or all labels are the same.
        BundleError: the folder holds no encoder.
        ParityError: the export does not match the trained module.
    """
    recipe = recipe or Recipe()
    inside, outside = _parted(questions, recipe)
    data = _file(encoder_folder, TOKENIZER)
    tokenizer = tokenizer_of(data, tokens)
    draw = Draw(seed=recipe.seed)
    learnt, watched = pairs_of(inside, draw=draw), pairs_of(outside, draw=draw)
    measured = pairs_of(outside)
    module, collate = _module(encoder_folder, recipe.seed)
    given, held = (_data(pairs, tokenizer, draw.share) for pairs in (learnt, watched))
    limits: Any = {"folder": folder, "seconds": seconds, "progress": progress}
    trained = train(module, given, held, recipe, collate=collate, **limits)
    settings = sealed({"tokens": tokens, "characters": SIDE_CHARACTERS})
    files = {
        MODEL: export(module, inputs=module.inputs),
        TOKENIZER: data,
        CALIBRATION: trained.calibration.write(),
    }
    encoder, likely = _served(files, settings), trained.calibration.probabilities
    compared = measured.texts[:: max(1, len(measured) // _COMPARED)]
    said = likely(_logits(module, collate, _tokens(compared, tokenizer)))
    same = parity(said, likely(encoder.encode(compared)[:, 0].tolist()))
    scores = likely(encoder.encode(measured.texts)[:, 0].tolist())
    metrics = measure(measured.labels, scores, measured.tasks)
    counts = _counts({"trained": learnt, "validated": watched, "measured": measured})
    told = _told(trained) | {"tasks_held_out": len(set(measured.tasks)), "recipe": asdict(recipe)}
    record = {**(about or {}), "pairs": counts, **told, "parity": asdict(same), **asdict(metrics)}
    files["metrics.json"] = (json.dumps(record, indent=1) + "\n").encode()
    files["README.md"] = _card(counts, metrics, same, trained).encode()
    bundle = write_bundle(out, scorer=KIND, files=files, settings=settings)
    return Result(bundle=bundle, metrics=metrics, parity=same, trained=trained, pairs=counts)


def _parted(questions: Iterable[Question], recipe: Recipe) -> tuple[list[Question], list[Question]]:
    """Return the questions to train on, and those of held-out tasks."""
    asked = list(questions)
    held = held_out(asked, share=recipe.validation, seed=recipe.seed)
    if not any(held):
        raise LabelsError("labels", "cover too few tasks to hold some out; label more logs")
    inside = [question for question, out_of in zip(asked, held, strict=True) if not out_of]
    return inside, [question for question, out_of in zip(asked, held, strict=True) if out_of]


def _served(files: Mapping[str, bytes], settings: Mapping[str, Any]) -> Encoder:
    """Return the exported encoder as serving would load it."""
    with tempfile.TemporaryDirectory() as place:
        return Encoder(write_bundle(Path(place), scorer=KIND, files=files, settings=settings))


def _told(trained: Trained) -> dict[str, Any]:
    return {
        "stopped": trained.stopped,
        "steps": trained.steps,
        "seconds": round(trained.seconds),
    }


def _counts(drawn: Mapping[str, Pairs]) -> dict[str, int]:
    return {
        name: value
        for kind, pairs in drawn.items()
        for name, value in ((kind, len(pairs)), (f"needed_{kind}", pairs.needed))
    }


def _data(pairs: Pairs, tokenizer: Any, share: float) -> Data:
    inputs = _tokens(pairs.texts, tokenizer)
    return Data(
        inputs=inputs,
        labels=pairs.labels,
        weights=training_weights(pairs, share=share),
        calibrating=real_weights(pairs),
        lengths=[len(ids) for ids, _ in inputs],
    )


def _tokens(texts: Sequence[tuple[str, str]], tokenizer: Any) -> list[Tokens]:
    return [(one.ids, one.type_ids) for one in (tokenizer.encode(*pair) for pair in texts)]


def _logits(
    module: CrossEncoder, collate: Callable[[Sequence[Tokens]], Any], pairs: Sequence[Tokens]
) -> list[float]:
    """Return the trained module's scores for pairs."""
    module.eval()
    found: list[float] = []
    with torch.no_grad():
        for start in range(0, len(pairs), _AT_ONCE):
            rows = module.encode(collate(pairs[start : start + _AT_ONCE]))
            found += module.head(rows).flatten().tolist()
    return found


def _file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise BundleError(
            str(folder / name), f"cannot be read: {error.strerror or error}"
        ) from error


def _card(counts: Mapping[str, int], metrics: Metrics, same: Parity, trained: Trained) -> str:
    return "\n".join(
        [
            "# A cross-encoder scorer",
            "",
            "An encoder that reads the anchor and one past step together, trained by LP-FT and",
            "calibrated (Platt). It gives the probability that the next action needs the step.",
            "No code in this folder is run: the model is ONNX, checked by hash.",
            "",
            "| pairs | all | needed |",
            "|---|---|---|",
            *(
                f"| {kind} | {counts[kind]:,} | {counts[f'needed_{kind}']:,} |"
                for kind in ("trained", "validated", "measured")
            ),
            "",
            f"Training took {trained.steps:,} steps and {trained.seconds / 60:.0f} minutes"
            + (", and ran out of time." if trained.stopped == "seconds" else "."),
            "On all pairs of held-out tasks, which also chose the epoch and the",
            "calibration (intervals by bootstrap over tasks):",
            f"AUC {metrics.auc},",
            f"average precision {metrics.average_precision},",
            f"calibration error {metrics.calibration_error}.",
            f"The export is within {same.worst:.4f} of the trained model, on {same.pairs} pairs.",
            "",
        ]
    )
