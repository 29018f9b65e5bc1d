from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs the extra `train-encoders`")
pytest.importorskip("transformers", reason="training needs the extra `train-encoders`")

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from lab.tests.tiny_encoder import make_encoder, make_questions

from agora.scorers.encoder import tokenizer_of
from agora_lab.labels import LabelsError
from agora_lab.train.cross_encoder import CrossEncoder, collate_for, load_encoder
from agora_lab.train.lpft import Data, Recipe, Trained, calibrate, schedule, train
from agora_lab.train.pairs import Draw, pairs_of, real_weights, training_weights

RECIPE = Recipe(head_epochs=2, full_epochs=2, full_rate=1e-3, checkpoint_steps=4)

Collate = Callable[[Sequence[Any]], Any]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def module(encoder: Path) -> CrossEncoder:
    return CrossEncoder(load_encoder(encoder), seed=1)


def make_data(encoder: Path, tasks: int, seed: int) -> Data:
    pairs = pairs_of(make_questions(tasks, seed=seed))
    tokenizer = tokenizer_of((encoder / "tokenizer.json").read_bytes(), 32)
    found = [tokenizer.encode(*texts) for texts in pairs.texts]
    return Data(
        inputs=[(one.ids, one.type_ids) for one in found],
        labels=pairs.labels,
        weights=training_weights(pairs),
        calibrating=real_weights(pairs),
        lengths=[len(one.ids) for one in found],
    )


def stopping(collate: Collate, calls: int) -> Collate:
    """Return a collate that is interrupted, as by a key, at one of its calls."""
    left = [calls]

    def stops(inputs: Sequence[Any]) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return collate(inputs)

    return stops


def weights(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value.detach().numpy().copy() for name, value in module.named_parameters()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def rows(trained: Trained) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in trained.curve]


@pytest.mark.parametrize("calls", [9, 17, 29])
def test_a_training_that_was_interrupted_ends_with_the_weights_of_one_that_was_not(
    encoder: Path, tmp_path: Path, calls: int
) -> None:
    examples, validation = make_data(encoder, 10, 0), make_data(encoder, 4, 1)

    def run(folder: Path, stop: int | None = None) -> tuple[dict[str, Any], Trained]:
        module = CrossEncoder(load_encoder(encoder), seed=1)
        collate = collate_for(module, 0)
        trained = train(
            module,
            examples,
            validation,
            RECIPE,
            collate=stopping(collate, stop) if stop is not None else collate,
            folder=folder,
        )
        return weights(module), trained

    whole, wanted = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", calls)
    parts, found = run(tmp_path / "parts")

    assert same(whole, parts)
    assert rows(found) == rows(wanted)
    assert found.calibration == wanted.calibration
    assert found.steps == wanted.steps


def test_a_training_that_ran_out_of_time_says_so_and_goes_on_when_there_is_more(
    encoder: Path, tmp_path: Path
) -> None:
    examples, validation = make_data(encoder, 8, 0), make_data(encoder, 4, 1)

    def run(folder: Path, seconds: float | None) -> tuple[dict[str, Any], Trained]:
        module = CrossEncoder(load_encoder(encoder), seed=1)
        trained = train(
            module,
            examples,
            validation,
            RECIPE,
            collate=collate_for(module, 0),
            folder=folder,
            seconds=seconds,
        )
        return weights(module), trained

    _, short = run(tmp_path / "parts", 0.0)
    parts, found = run(tmp_path / "parts", None)
    whole, wanted = run(tmp_path / "whole", None)

    assert short.stopped == "seconds"
    assert short.steps == 0
    assert found.stopped == wanted.stopped == "epochs"
    assert same(parts, whole)
    assert rows(found) == rows(wanted)


def test_the_head_learns_alone_first(encoder: Path, module: CrossEncoder) -> None:
    before = weights(module.encoder)
    recipe = replace(RECIPE, full_epochs=0, patience=None)

    trained = train(
        module,
        make_data(encoder, 8, 0),
        make_data(encoder, 4, 1),
        recipe,
        collate=collate_for(module, 0),
    )

    assert same(before, weights(module.encoder))
    assert {row["phase"] for row in trained.curve} == {"head"}
    train(
        module,
        make_data(encoder, 8, 0),
        make_data(encoder, 4, 1),
        replace(RECIPE, head_epochs=0),
        collate=collate_for(module, 0),
    )
    assert not same(before, weights(module.encoder))


def test_training_lowers_the_loss_and_keeps_the_best_weights(
    encoder: Path, module: CrossEncoder
) -> None:
    validation = make_data(encoder, 8, 1)
    recipe = replace(RECIPE, full_epochs=6, full_rate=2e-3)

    trained = train(
        module, make_data(encoder, 20, 0), validation, recipe, collate=collate_for(module, 0)
    )

    losses = [row["validation_loss"] for row in trained.curve if row["validation_loss"]]
    logits = torch.tensor(trained.logits)
    found = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, torch.tensor(validation.labels), torch.tensor(validation.weights)
    )
    assert float(found) == pytest.approx(min(losses), rel=1e-4)
    assert min(losses) < losses[0]


def test_a_phase_ends_when_the_validation_loss_has_not_fallen_for_a_while(
    encoder: Path, module: CrossEncoder
) -> None:
    recipe = Recipe(head_epochs=0, full_epochs=9, full_rate=0.0, patience=2)

    trained = train(
        module,
        make_data(encoder, 4, 0),
        make_data(encoder, 4, 1),
        recipe,
        collate=collate_for(module, 0),
    )

    assert [row["epoch"] for row in trained.curve if row["validation_loss"]] == [1, 2, 3]


def test_a_folder_of_another_training_is_not_gone_on_with(
    encoder: Path, module: CrossEncoder, tmp_path: Path
) -> None:
    examples, validation = make_data(encoder, 4, 0), make_data(encoder, 4, 1)
    collate = collate_for(module, 0)
    train(module, examples, validation, RECIPE, collate=collate, folder=tmp_path, seconds=0.0)

    with pytest.raises(LabelsError, match="another recipe"):
        train(module, examples, validation, Recipe(seed=7), collate=collate, folder=tmp_path)


def test_nothing_is_learnt_from_labels_of_one_kind(encoder: Path, module: CrossEncoder) -> None:
    data = make_data(encoder, 4, 0)
    same_labels = replace(data, labels=[0.0] * len(data))

    with pytest.raises(LabelsError, match="all the same"):
        train(module, same_labels, data, collate=collate_for(module, 0))


def test_the_callers_chance_is_left_alone(encoder: Path, module: CrossEncoder) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(3)
    torch.manual_seed(3)
    data = make_data(encoder, 4, 0)

    train(module, data, data, replace(RECIPE, full_epochs=0), collate=collate_for(module, 0))

    assert torch.equal(torch.rand(3), wanted)


def test_the_default_recipe_is_the_papers() -> None:
    recipe = Recipe()

    assert (recipe.head_epochs, recipe.head_rate) == (5, 2e-4)
    assert (recipe.full_epochs, recipe.full_rate) == (4, 1e-5)
    assert (recipe.batch, recipe.warmup, recipe.validation, recipe.seed) == (16, 0.1, 0.2, 42)


@given(st.integers(1, 500), st.floats(0, 0.9))
def test_the_rate_rises_to_its_height_once_and_then_only_falls(steps: int, warmup: float) -> None:
    shares = [schedule(step, steps, warmup) for step in range(steps)]

    top = max(range(steps), key=lambda step: (shares[step], -step))
    assert all(0 <= share <= 1 for share in shares)
    assert shares[: top + 1] == sorted(shares[: top + 1])
    assert shares[top:] == sorted(shares[top:], reverse=True)


def test_calibrated_probabilities_are_right_on_average() -> None:
    chance = np.random.default_rng(0)
    logits = chance.normal(0, 2, 4_000)
    labels = (chance.random(4_000) < 1 / (1 + np.exp(-(0.5 * logits - 2)))).astype(float)

    found = calibrate(logits.tolist(), labels.tolist(), [1.0] * 4_000)

    assert found.slope == pytest.approx(0.5, abs=0.1)
    assert found.intercept == pytest.approx(-2, abs=0.2)
    assert np.mean(found.probabilities(logits.tolist())) == pytest.approx(labels.mean(), abs=1e-3)


def test_soft_labels_are_calibrated_to_their_mean() -> None:
    found = calibrate([0.0, 1.0, 2.0], [0.25, 0.25, 0.25], [1.0, 1.0, 1.0])

    assert found.probabilities([1.0])[0] == pytest.approx(0.25, abs=1e-3)


@given(share=st.floats(0.05, 0.5), seed=st.integers(0, 3))
def test_drawn_pairs_stand_for_all_and_every_source_has_the_same_share_of_needed(
    share: float, seed: int
) -> None:
    questions = make_questions()
    everything = pairs_of(questions)

    pairs = pairs_of(questions, draw=Draw(share=share, least=1, seed=seed))

    assert sum(pairs.times) == pytest.approx(len(everything))
    weights = training_weights(pairs, share=share)
    assert np.mean(weights) == pytest.approx(1)
    for source in ("large", "small"):
        of_source = [
            (weight, label)
            for weight, label, name in zip(weights, pairs.labels, pairs.sources, strict=True)
            if name == source
        ]
        needed = sum(weight for weight, label in of_source if label)
        assert needed / sum(weight for weight, _ in of_source) == pytest.approx(share)


def test_real_weights_have_the_real_share_of_needed_pairs() -> None:
    questions = make_questions()
    everything = pairs_of(questions)

    pairs = pairs_of(questions, draw=Draw(share=0.5, least=1))

    weights = real_weights(pairs)
    needed = sum(w for w, label in zip(weights, pairs.labels, strict=True) if label)
    assert needed / sum(weights) == pytest.approx(everything.needed / len(everything))
