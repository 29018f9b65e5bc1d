"""Train the paper's pair classifier on an encoder, and write it as a scorer's folder."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoModel

from agora import Query, Step, load_scorer
from agora.paper import SIDE_CHARACTERS, TOKENS, pair_texts, write_cross_encoder
from agora_lab.envs.atoms import atoms_of
from agora_lab.labels import Label, LabelsError
from agora_lab.train.export import check_parity, export
from agora_lab.train.lpft import Examples, Recipe, Trained, probabilities, train
from agora_lab.train.metrics import NEEDED, Interval, auc

__all__ = ["ALL", "CrossEncoder", "Result", "held_out", "train_cross_encoder"]

_COMPARED = 100
"""Held-out pairs on which the served scores are compared with the trained ones."""
ALL = "all"
"""The held-out pairs of every source together."""

Tokens = tuple[list[int], list[int]]
"""The token ids of a pair, and the segment of each."""


class CrossEncoder(nn.Module):
    """An encoder with RoBERTa's classification head on its first token, for two classes."""

    def __init__(self, encoder: Any, *, seed: int) -> None:
        """Put a fresh head on an encoder of transformers; the seed draws its weights."""
        super().__init__()
        config: Any = encoder.config
        # Trained for another purpose, and absent from most encoders in safetensors form.
        if hasattr(encoder, "pooler"):
            encoder.pooler = None
        self.encoder = encoder.float()
        segments = getattr(config, "type_vocab_size", 0) > 1
        names = ("input_ids", "attention_mask", "token_type_ids")
        self.inputs = names if segments else names[:2]
        width, dropout = config.hidden_size, getattr(config, "hidden_dropout_prob", 0.1)
        self.head = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Dropout(dropout),
            nn.Linear(width, 2),
        )
        chance = torch.Generator().manual_seed(seed)
        for part in self.head:
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=0.02, generator=chance)
                nn.init.zeros_(part.bias)

    def encode(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the encoder's output for the first token of each pair."""
        rows: Tensor = self.encoder(**batch).last_hidden_state[:, 0]
        return rows

    def forward(self, *tensors: Tensor) -> Tensor:
        """Return two logits per pair, for tensors in the order of `inputs`."""
        logits: Tensor = self.head(self.encode(dict(zip(self.inputs, tensors, strict=True))))
        return logits


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A trained scorer's record."""

    folder: Path
    auc: Interval
    """On the pairs of held-out trajectories; the interval is a bootstrap over them."""
    parity: float
    """The largest distance of a served score from the trained one."""
    trained: Trained
    record: Mapping[str, Any]


def train_cross_encoder(
    labels: Sequence[Label],
    encoder_folder: Path,
    recipe: Recipe | None = None,
    *,
    out: Path,
    tokens: int = TOKENS,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    about: Mapping[str, Any] | None = None,
) -> Result:
    """Train on labels by the paper's recipe, export, compare, measure, and write to `out`.

    Args:
        labels: Their source names the environment, and so the rule of the atoms.
        encoder_folder: Has `config.json`, `model.safetensors` and `tokenizer.json`.
        recipe: The paper's, if not given.
        out: The folder of the scorer.
        tokens: How many subwords of a pair are read.
        progress: Called with a phase, its batches so far and in all.
        about: Goes into the record.

    Raises:
        LabelsError: There are too few trajectories, or all labels are the same.
        OSError: The folder holds no encoder.
        ParityError: The export does not give the scores of the trained module.
    """
    recipe = recipe or Recipe()
    outside = held_out(labels, share=recipe.validation, seed=recipe.seed)
    pairs = [_Pair.of(label) for label in labels]
    learnt = [pair for pair in pairs if _task(pair.label) not in outside]
    watched = [pair for pair in pairs if _task(pair.label) in outside]
    for name, part in (("training", learnt), ("validation", watched)):
        if len({pair.label.label >= NEEDED for pair in part}) < 2:
            raise LabelsError("labels", f"are all the same in {name} ({len(part):,} pairs)")
    tokenizer = _tokenizer(encoder_folder, tokens)
    module = CrossEncoder(_encoder(encoder_folder), seed=recipe.seed)
    config: Any = module.encoder.config
    collate = _collate(module.inputs, config.pad_token_id or 0)
    examples, validation = (
        Examples(
            inputs=[_tokens(tokenizer, pair.texts) for pair in part],
            labels=[pair.label.label for pair in part],
        )
        for part in (learnt, watched)
    )
    trained = train(module, examples, validation, recipe, collate=collate, progress=progress)
    scores = probabilities(module, validation.inputs, collate)
    measured = _measured(watched, scores)
    record: dict[str, Any] = {
        **(about or {}),
        "labels": _counts(pairs),
        "validated_on": _counts(watched),
        "parameters": sum(weight.numel() for weight in module.parameters()),
        "encoder": f"{config.model_type}, {config.num_hidden_layers} x {config.hidden_size}",
        "tokens": tokens,
        "recipe": asdict(recipe),
        "auc": {
            source: {name: asdict(figure) for name, figure in figures.items()}
            for source, figures in measured.items()
        },
        "epochs": list(trained.epochs),
        "seconds": trained.seconds,
    }
    model, tokens_file = export(module, module.inputs), encoder_folder / "tokenizer.json"

    def write() -> None:
        text = (json.dumps(record, indent=1) + "\n").encode()
        write_cross_encoder(
            out,
            model=model,
            tokenizer=tokens_file.read_bytes(),
            tokens=tokens,
            characters=SIDE_CHARACTERS,
            files={"metrics.json": text},
        )

    write()
    record["parity"] = check_parity(scores[:_COMPARED], _served(out, watched[:_COMPARED]))
    write()
    return Result(
        folder=out,
        auc=measured[ALL]["trained"],
        parity=record["parity"],
        trained=trained,
        record=record,
    )


def held_out(labels: Iterable[Label], *, share: float, seed: int) -> set[str]:
    """Return about that share of the tasks of each source, drawn by hashes of their names."""
    names: dict[str, set[str]] = defaultdict(set)
    for label in labels:
        names[label.source].add(_task(label))

    def place(task: str) -> bytes:
        return hashlib.sha256(f"{seed}\n{task}".encode("utf-8", "surrogatepass")).digest()[4:8]

    return {
        task
        for tasks in names.values()
        for task in sorted(tasks, key=place)[: round(share * len(tasks))]
    }


def _task(label: Label) -> str:
    return f"{label.source}/{label.task}"


@dataclass(frozen=True, slots=True)
class _Pair:
    label: Label
    query: Query
    step: Step
    """The past step as the atom of its environment."""

    @classmethod
    def of(cls, label: Label) -> "_Pair":
        step = Step(
            number=label.candidate, action=label.action, observation=label.observation, tokens=0
        )
        read = atoms_of(label.source)(step)
        step = step._replace(action=read.action, observation=read.observation)
        return cls(label, Query("", label.current), step)

    @property
    def texts(self) -> tuple[str, str]:
        return pair_texts(self.query, [self.step])[0]


def _measured(pairs: Sequence[_Pair], scores: Sequence[float]) -> dict[str, dict[str, Interval]]:
    """Return the AUC by source, and of all; those of BM25 and of the newest first beside it."""
    columns = {
        "trained": list(scores),
        "bm25": _bm25(pairs),
        "newest first": [float(pair.label.candidate - pair.label.anchor) for pair in pairs],
    }
    sources = sorted({pair.label.source for pair in pairs})
    places = {
        source: [at for at, p in enumerate(pairs) if p.label.source == source] for source in sources
    }
    places[ALL] = list(range(len(pairs)))
    return {
        source: {
            name: auc(
                [pairs[at].label.label for at in some],
                [values[at] for at in some],
                [_task(pairs[at].label) for at in some],
            )
            for name, values in columns.items()
        }
        for source, some in places.items()
    }


def _bm25(pairs: Sequence[_Pair]) -> list[float]:
    """Score the labelled steps of each action together, since BM25 compares them."""
    groups: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for at, pair in enumerate(pairs):
        groups[_task(pair.label), pair.label.trajectory, pair.label.anchor].append(at)
    scorer = load_scorer("bm25")
    scores = [0.0] * len(pairs)
    for some in groups.values():
        values = scorer.score(pairs[some[0]].query, [pairs[at].step for at in some])
        for at, value in zip(some, values, strict=True):
            scores[at] = float(value)
    return scores


def _served(folder: Path, pairs: Sequence[_Pair]) -> list[float]:
    scorer = load_scorer(folder)
    return [scorer.score(pair.query, [pair.step])[0] for pair in pairs]


def _counts(pairs: Sequence[_Pair]) -> dict[str, dict[str, int]]:
    """Return trajectories, pairs and critical pairs by environment."""
    by_source: dict[str, list[Label]] = defaultdict(list)
    for pair in pairs:
        by_source[pair.label.source].append(pair.label)
    return {
        source: {
            "trajectories": len({label.task for label in some}),
            "pairs": len(some),
            "critical": sum(label.label >= NEEDED for label in some),
        }
        for source, some in sorted(by_source.items())
    }


def _encoder(folder: Path) -> nn.Module:
    encoder: nn.Module = AutoModel.from_pretrained(
        folder,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        attn_implementation="eager",
    )
    return encoder


def _tokenizer(folder: Path, tokens: int) -> Tokenizer:
    """Return the tokenizer as serving uses it; the parity check compares the two."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=tokens, strategy="longest_first")
    tokenizer.encode_special_tokens = True
    return tokenizer


def _tokens(tokenizer: Tokenizer, texts: tuple[str, str]) -> Tokens:
    encoding = tokenizer.encode(*texts)
    return encoding.ids, encoding.type_ids


def _collate(
    inputs: Sequence[str], padding: int
) -> Callable[[Sequence[Tokens]], dict[str, Tensor]]:
    """Return a function that makes a padded batch of tokenised pairs."""

    def collate(pairs: Sequence[Tokens]) -> dict[str, Tensor]:
        longest = max(len(ids) for ids, _ in pairs)
        columns = {
            "input_ids": [ids + [padding] * (longest - len(ids)) for ids, _ in pairs],
            "attention_mask": [[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in pairs],
            "token_type_ids": [side + [0] * (longest - len(side)) for _, side in pairs],
        }
        return {name: torch.tensor(columns[name]) for name in inputs}

    return collate
