import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs the extra `train`")
pytest.importorskip("transformers", reason="training needs the extra `train`")
pytest.importorskip("onnxruntime", reason="serving needs the extra `onnx`")

import numpy as np
import tokenizers
import torch
from transformers import BertConfig, BertModel

from agora.core.trajectory import Anchor, Step
from agora.errors import BundleError, LabelsError
from agora.scorers.embedding import EmbeddingScorer
from agora.scorers.encoder import Encoder
from agora_lab.training import embedding
from agora_lab.training.embedding import EmbeddingSettings, Trained, train_embedding
from agora_lab.training.features import TreeSettings
from agora_lab.training.questions import Question

COLOURS = ("red", "green", "blue", "grey")
SMALL = EmbeddingSettings(
    tokens=32, directions=16, strength=0.1, trees=TreeSettings(rounds=20, first_rounds=10)
)


def make_encoder(folder: Path) -> Path:
    """Write an encoder of two layers with random weights, and a tokenizer."""
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    )
    words = [*COLOURS, "ACTION OBS look box holds key 0 1 2 3 4 5 6 7 8 9 HAT"]
    tokenizer.train_from_iterator(words, trainer)
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    make: Any = BertModel._from_config
    make(config).save_pretrained(folder)
    return folder


def make_questions(count: int = 60) -> list[Question]:
    """Return questions whose needed step is, for the most part, the one of the newest's colour."""
    chance = random.Random(0)
    questions = []
    for n in range(count):
        colours = [chance.choice(COLOURS) for _ in range(7)]
        past = tuple(
            Step(
                number=at,
                action=f"look {colour}",
                observation=f"{colour} box holds HAT{chance.randrange(100, 999)}",
                tokens=9,
            )
            for at, colour in enumerate(colours, start=1)
        )
        labels = [float(colour == colours[-1] and chance.random() < 0.9) for colour in colours[:5]]
        questions.append(
            Question(
                anchor=Anchor("find the key", past[-1].observation),
                past=past,
                candidates=tuple(range(5)),
                labels=tuple(labels),
                task=f"boxes/{n % 20}",
                source="boxes",
            )
        )
    return questions


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("made") / "encoder")


@pytest.fixture(scope="module")
def trained(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train_embedding(make_questions(), encoder, tmp_path_factory.mktemp("out"), SMALL)


def test_what_is_served_is_what_was_trained(trained: Trained) -> None:
    folder = trained.bundle.folder

    assert trained.parity.pairs > 0
    assert trained.parity.worst <= 1e-4
    assert trained.bundle.scorer == "embedding"
    assert not (folder / "work").exists()
    assert "| boxes | 300 |" in (folder / "README.md").read_text(encoding="utf-8")
    found = json.loads(trained.bundle.read("metrics.json"))["held_out"]["boxes"]
    # What is needed depends on two colours, which no feature sees.
    assert found["auc"][0] > found["auc_features"][0] + 0.1


def test_thinned_training_twice_gives_the_same_bundle(encoder: Path, tmp_path: Path) -> None:
    settings = replace(SMALL, most_pairs=60, folds=2)

    first, second = (
        train_embedding(make_questions(30), encoder, tmp_path / name, settings).bundle
        for name in "ab"
    )

    assert first.files == second.files


def test_an_interrupted_training_goes_on_with_the_vectors_it_has(
    encoder: Path, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = make_questions()
    monkeypatch.setattr(embedding, "_SHARD", 10)
    passes = 0
    plain = Encoder.encode

    def interrupted(self: Encoder, texts: list[str]) -> object:
        nonlocal passes
        passes += 1
        if passes == 35:
            raise KeyboardInterrupt
        return plain(self, texts)

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "encode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_embedding(questions, encoder, tmp_path / "part", SMALL)
        kept = len(list((tmp_path / "part" / "work").glob("vectors-*/*.npz")))
        assert kept == 3
    again = train_embedding(questions, encoder, tmp_path / "part", SMALL)

    assert again.bundle.files == trained.bundle.files


def test_a_bundle_can_lend_its_encoder_to_a_new_head(trained: Trained, tmp_path: Path) -> None:
    lender = trained.bundle
    settings = replace(SMALL, folds=2)

    new = train_embedding(make_questions(40), lender.folder, tmp_path / "new", settings).bundle

    assert new.files["model.onnx"] == lender.files["model.onnx"]
    assert new.files["head.json"] != lender.files["head.json"]


def test_the_head_in_numpy_says_what_the_columns_of_training_say() -> None:
    questions = make_questions(30)
    pairs = embedding._pairs(questions, SMALL)
    vectors = np.random.default_rng(0).normal(size=(len(pairs.texts), 32)).astype(np.float32)
    sums = np.random.default_rng(1).normal(size=len(pairs.kept))
    head = embedding._fit(pairs, vectors, sums, pairs.side >= 0, SMALL)

    wanted = embedding._logits(head, pairs, vectors, sums)

    for n in range(0, len(wanted), 7):
        rows = vectors[[pairs.step[n], pairs.newest[n]]]
        both = np.array([sums[n], 0.0], dtype=np.float32)
        assert head.logits(both, rows)[0] == pytest.approx(wanted[n], abs=1e-4)


def test_labels_of_one_kind_or_one_task_cannot_be_trained_on(encoder: Path, tmp_path: Path) -> None:
    questions = make_questions(10)
    with pytest.raises(LabelsError, match="are the same"):
        train_embedding(
            [replace(one, labels=(0.0,) * 5) for one in questions], encoder, tmp_path, SMALL
        )
    with pytest.raises(LabelsError, match="too few"):
        train_embedding([replace(one, task="a") for one in questions], encoder, tmp_path, SMALL)


def test_a_folder_without_an_encoder_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no readable encoder"):
        train_embedding(make_questions(), tmp_path, tmp_path / "out", SMALL)


def test_a_trained_bundle_scores_between_0_and_1(trained: Trained) -> None:
    scorer = EmbeddingScorer(trained.bundle)

    for question in make_questions(5):
        assert all(0 <= score <= 1 for score in scorer.score(question.anchor, question.past))
