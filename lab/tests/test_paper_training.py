"""The paper's scorer, the whole way: labels, training by the recipe, export, serving."""

import json
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="serving needs the extra `onnx`")
pytest.importorskip("transformers", reason="training needs the extra `train-encoders`")
pytest.importorskip("onnx", reason="training needs the extra `train-encoders`")

import torch
from click.testing import CliRunner
from lab.tests.tiny_encoder import THINGS, make_encoder, make_labels

from agora import Compressor, Query, Step, load_scorer
from agora.paper import pair_texts
from agora_lab.cli.train import train as command
from agora_lab.envs.atoms import atoms_of
from agora_lab.labels import LabelsError, write_labels
from agora_lab.methods import MethodSettings, method
from agora_lab.train.cross_encoder import CrossEncoder, Result, train_cross_encoder
from agora_lab.train.export import PARITY, ParityError, check_parity
from agora_lab.train.lpft import Examples, Recipe, train

QUICK = Recipe(head_epochs=1, full_epochs=6, full_rate=3e-3)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"), "roberta")


@pytest.fixture(scope="module")
def result(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("scorer")
    return train_cross_encoder(make_labels(30), encoder, QUICK, out=folder, tokens=64)


def test_the_default_recipe_is_the_papers() -> None:
    assert Recipe() == Recipe(
        head_epochs=5,
        head_rate=2e-4,
        full_epochs=4,
        full_rate=1e-5,
        batch=16,
        warmup=0.1,
        validation=0.2,
        seed=42,
    )


def test_served_scores_are_those_of_the_trained_module(result: Result) -> None:
    assert result.parity <= PARITY
    record = result.record
    for source in ("large", "small"):
        every, held = record["labels"][source], record["validated_on"][source]
        assert every["trajectories"] == 5 * held["trajectories"]
        assert set(record["auc"][source]) == {"trained", "bm25", "newest first"}
    assert json.loads((result.folder / "metrics.json").read_text())["parity"] == result.parity
    phases = [row["phase"] for row in result.trained.epochs]
    assert phases == ["head"] + ["full"] * 6
    losses = [row["loss"] for row in result.trained.epochs]
    assert losses[-1] < losses[0]


def test_the_trained_scorer_serves_the_papers_compressor(result: Result) -> None:
    steps = "".join(f"[ASSISTANT] look at {thing}\n[USER] {thing} here\n" for thing in THINGS)
    prompt = f"[USER] find key 2\n{steps}[ASSISTANT] look\n[USER] key 2 needed\n"

    compression = Compressor.paper(load_scorer(result.folder)).compress(prompt)

    assert compression.changed
    scores = [decision.score for decision in compression.decisions[:-2]]
    assert all(score is not None and 0 < score < 1 for score in scores)
    assert "step(s) elided" in compression.messages


def test_the_trained_scorer_and_an_environments_atoms_serve_the_experiments_method(
    result: Result,
) -> None:
    settings = MethodSettings(scorer=str(result.folder), atom=atoms_of("alfworld"))
    messages = [{"role": "user", "content": "find key 2"}]
    for thing in THINGS:
        messages += [
            {"role": "assistant", "content": f"go to {thing}"},
            {"role": "user", "content": f"On the {thing}, you see a key 2, and a pen 1."},
        ]

    sent = method("agora_paper", settings).shorten(messages).messages

    assert len(sent) < len(messages)
    assert list(sent[-4:]) == messages[-4:]


def test_a_score_does_not_depend_on_the_task_or_on_other_steps(result: Result) -> None:
    scorer = load_scorer(result.folder)
    steps = [
        Step(number=n, action=f"look at {thing}", observation=f"{thing} here", tokens=9)
        for n, thing in enumerate(THINGS, start=1)
    ]

    scores = list(scorer.score(Query("find key 2", "key 2 needed"), steps))

    assert scores == [scorer.score(Query("", "key 2 needed"), [step])[0] for step in steps]


def test_a_pair_is_the_observation_and_the_atom_cut_at_1500_characters() -> None:
    step = Step(number=1, action="a" * 4_000, observation="b" * 4_000, tokens=1)

    [(now, text)] = pair_texts(Query("t" * 4_000, "o" * 4_000), [step])

    assert now == "o" * 1_500
    assert text.startswith("ACTION aaa")
    assert len(text) == 1_500


def test_training_twice_gives_the_same_scores(encoder: Path, tmp_path: Path) -> None:
    recipe = Recipe(head_epochs=1, full_epochs=1)
    models = []
    for name in ("one", "two"):
        made = train_cross_encoder(make_labels(10), encoder, recipe, out=tmp_path / name, tokens=64)
        models.append((made.folder / "model.onnx").read_bytes())

    assert models[0] == models[1]


def test_the_head_learns_alone_first(encoder: Path) -> None:
    from transformers import AutoModel

    module = CrossEncoder(AutoModel.from_pretrained(encoder), seed=42)
    before = {name: weight.clone() for name, weight in module.named_parameters()}
    data = Examples(inputs=[([2, 10 + n, 3], [0, 0, 0]) for n in range(8)], labels=[0.0, 1.0] * 4)

    def collate(pairs: object) -> dict[str, torch.Tensor]:
        ids = torch.tensor([ids for ids, _ in pairs])  # type: ignore[attr-defined]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    train(module, data, data, Recipe(head_epochs=3, full_epochs=0), collate=collate)

    changed = {n for n, weight in module.named_parameters() if not weight.equal(before[n])}
    assert changed
    assert all(name.startswith("head.") for name in changed)


def test_labels_of_one_kind_and_a_bad_export_are_refused(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match="all the same"):
        train_cross_encoder(make_labels(1), encoder, out=tmp_path)
    with pytest.raises(ParityError, match="more than 1e-05"):
        check_parity([0.5], [0.6])


def test_the_command_trains_from_a_file_of_labels(encoder: Path, tmp_path: Path) -> None:
    file = tmp_path / "labels.parquet"
    write_labels(file, make_labels(10))
    options = ["--encoder", str(encoder), "--tokens", "64"]

    out = tmp_path / "out"
    done = CliRunner().invoke(command, [str(file), *options, "--out", str(out)])

    assert done.exit_code == 0, done.output
    for part in ("AUC on held-out trajectories", "bm25", "180", "Backbone: encoder"):
        assert part in done.output
    assert json.loads((out / "metrics.json").read_text())["recipe"]["full_epochs"] == 4
    assert load_scorer(out).score(Query("", "key"), []) == []
