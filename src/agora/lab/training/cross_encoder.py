"""Train the paper's pair classifier on any encoder, and write it as a bundle."""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agora.errors import BundleError, LabelsError, MissingExtraError
from agora.lab.training.export import Parity, export, parity, simulate_int8
from agora.lab.training.lpft import Data, Recipe, Trained, train
from agora.lab.training.metrics import Metrics, measure
from agora.lab.training.pairs import Draw, Pairs, pairs_of, real_weights, training_weights
from agora.lab.training.questions import Question, held_out
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

try:
    import torch
    from torch import Tensor, nn
    from transformers import AutoModel
except ImportError as error:
    raise MissingExtraError(__name__, "train-encoders") from error

if TYPE_CHECKING:
    from rich.progress import Progress

_COMPARED = 300
"""On so many pairs of tasks held out the export is compared with what was trained."""

_AT_ONCE = 16

Tokens = tuple[list[int], list[int]]
"""The ids of a pair, and which side each is of."""


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
    """Return the encoder in a folder of `config.json` and safetensors; no code of it is run.

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
            str(folder), "holds no encoder: config.json and model.safetensors are needed"
        ) from error
    if hasattr(encoder, "pooler"):
        # Trained for another end, and left out by most encoders that come as safetensors.
        encoder.pooler = None
    found: nn.Module = encoder.float()
    return found


def collate_for(module: CrossEncoder, padding: int) -> Callable[[Sequence[Tokens]], dict[str, Any]]:
    """Return what makes a batch of tokenised pairs, padded to the longest of them."""

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
    """A bundle, and how it came to be."""

    bundle: Bundle
    metrics: Metrics
    """Of the exported scorer on all pairs measured of the tasks held out."""
    parity: Parity
    trained: Trained
    pairs: Mapping[str, int]
    """How many pairs were trained on, validated with and measured; `needed_*` of them needed."""


def train_cross_encoder(
    questions: Iterable[Question],
    encoder_folder: Path,
    recipe: Recipe | None = None,
    *,
    out: Path,
    tokens: int = TOKENS,
    characters: int = SIDE_CHARACTERS,
    draw: Draw | None = None,
    validating: Draw | None = None,
    int8: bool = True,
    folder: Path | None = None,
    seconds: float | None = None,
    progress: "Progress | None" = None,
    about: Mapping[str, Any] | None = None,
) -> Result:
    """Train on the labels, export, compare, measure and write the bundle to `out`.

    `encoder_folder` has `config.json`, `model.safetensors` and `tokenizer.json`.
    Of the pairs, `draw` says which are trained on and `validating` on which the
    loss is watched and the calibration fitted; the metrics are of all pairs of
    the tasks held out. Checkpoints go to `folder`, and training stops after
    `seconds`. `about` is put into `metrics.json`.

    Raises:
        LabelsError: there are too few tasks, or labels of one kind only.
        BundleError: there is no encoder in the folder.
        ParityError: the export does not say what was trained.
    """
    recipe = recipe or Recipe()
    asked = list(questions)
    held = held_out(asked, share=recipe.validation, seed=recipe.seed)
    if not any(held):
        raise LabelsError("labels", "are of too few tasks to hold some out; label more logs")
    data = _file(encoder_folder, TOKENIZER)
    tokenizer = tokenizer_of(data, tokens)
    inside = [question for question, out_of in zip(asked, held, strict=True) if not out_of]
    outside = [question for question, out_of in zip(asked, held, strict=True) if out_of]
    draw = draw or Draw(seed=recipe.seed)
    learnt = pairs_of(inside, draw=draw, characters=characters)
    watched = pairs_of(outside, draw=validating or draw, characters=characters)
    measured = pairs_of(outside, characters=characters)

    module = CrossEncoder(load_encoder(encoder_folder), seed=recipe.seed)
    if int8:
        simulate_int8(module.encoder)
    config: Any = module.encoder.config
    collate = collate_for(module, config.pad_token_id or 0)
    trained = train(
        module,
        _data(learnt, tokenizer, draw.share),
        _data(watched, tokenizer, draw.share),
        recipe,
        collate=collate,
        folder=folder,
        seconds=seconds,
        progress=progress,
    )
    settings = sealed({"tokens": tokens, "characters": characters})
    files = {
        MODEL: export(module, inputs=module.inputs, int8=int8),
        TOKENIZER: data,
        CALIBRATION: trained.calibration.write(),
    }
    with tempfile.TemporaryDirectory() as place:
        draft = write_bundle(Path(place), scorer=KIND, files=files, settings=settings)
        encoder = Encoder(draft)
    compared = measured.texts[:: max(1, len(measured) // _COMPARED)]
    said = trained.calibration.probabilities(_logits(module, collate, _tokens(compared, tokenizer)))
    found = trained.calibration.probabilities(encoder.encode(compared)[:, 0].tolist())
    same = parity(said, found)
    logits = encoder.encode(measured.texts)[:, 0].tolist()
    metrics = measure(measured.labels, trained.calibration.probabilities(logits), measured.tasks)
    counts = {
        name: value
        for kind, pairs in (("trained", learnt), ("validated", watched), ("measured", measured))
        for name, value in ((kind, len(pairs)), (f"needed_{kind}", pairs.needed))
    }
    record = {
        **(about or {}),
        "pairs": counts,
        "tasks_held_out": len(set(measured.tasks)),
        "recipe": asdict(recipe),
        "stopped": trained.stopped,
        "steps": trained.steps,
        "seconds": round(trained.seconds),
        "parity": asdict(same),
        **asdict(metrics),
    }
    bundle = write_bundle(
        out,
        scorer=KIND,
        files={
            **files,
            "metrics.json": (json.dumps(record, indent=1) + "\n").encode(),
            "README.md": _card(counts, metrics, same, trained).encode(),
        },
        settings=settings,
    )
    return Result(bundle=bundle, metrics=metrics, parity=same, trained=trained, pairs=counts)


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
    """Return what the trained module says of pairs."""
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
            "Nothing in this folder is run: the model is ONNX, by hash.",
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
            "On all pairs of the tasks held out, by which also the epoch was chosen and the",
            "calibration fitted (intervals from drawing tasks anew):",
            f"AUC {metrics.auc},",
            f"average precision {metrics.average_precision},",
            f"calibration error {metrics.calibration_error}.",
            f"The export is at most {same.worst:.4f} from what was trained, on {same.pairs} pairs.",
            "",
        ]
    )
