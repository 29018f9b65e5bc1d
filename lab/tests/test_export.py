from pathlib import Path

import pytest

pytest.importorskip("torch", reason="export needs the extra `train-encoders`")
pytest.importorskip("transformers", reason="export needs the extra `train-encoders`")
pytest.importorskip("onnx", reason="export needs the extra `train-encoders`")
pytest.importorskip("onnxruntime", reason="serving needs the extra `onnx`")

import numpy as np
import onnx
import onnxruntime
import torch
from lab.tests.tiny_encoder import make_encoder

from agora_lab.train.cross_encoder import CrossEncoder, load_encoder
from agora_lab.train.export import Parity, ParityError, export, parity, simulate_int8


def make_module(folder: Path, kind: str) -> CrossEncoder:
    module = CrossEncoder(load_encoder(make_encoder(folder, kind)), seed=1).eval()
    with torch.no_grad():
        # A fresh head says nearly nothing; one that does shows what is lost.
        for value in module.head.parameters():
            value.mul_(20)
    return module


def feeds(module: CrossEncoder, lengths: tuple[int, ...]) -> list[dict[str, np.ndarray]]:
    chance = np.random.default_rng(0)
    columns = [
        {
            "input_ids": chance.integers(4, 60, (1, length)),
            "attention_mask": np.ones((1, length), np.int64),
            "token_type_ids": (np.arange(length) > length // 2).astype(np.int64)[None],
        }
        for length in lengths
    ]
    return [{name: feed[name] for name in module.inputs} for feed in columns]


def said(module: CrossEncoder, feed: dict[str, np.ndarray]) -> float:
    with torch.no_grad():
        return float(torch.sigmoid(module(*map(torch.from_numpy, feed.values()))))


def served(data: bytes, feed: dict[str, np.ndarray]) -> np.ndarray:
    model = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    logits = model.run(None, feed)[0][:, 0]
    return np.asarray(1 / (1 + np.exp(-logits)))


@pytest.mark.parametrize("kind", ["bert", "mpnet"])
@pytest.mark.parametrize("int8", [True, False])
def test_the_exported_scorer_says_what_the_trained_one_says_at_any_length(
    tmp_path: Path, kind: str, int8: bool
) -> None:
    module = make_module(tmp_path, kind)
    if int8:
        simulate_int8(module.encoder)

    data = export(module, inputs=module.inputs, int8=int8)

    asked = feeds(module, (3, 12, 40, 100))
    wanted = [said(module, feed) for feed in asked]
    found = [float(served(data, feed)[0]) for feed in asked]
    assert max(wanted) - min(wanted) > 0.05
    assert parity(wanted, found).worst < 0.002


def test_a_score_does_not_depend_on_what_it_is_run_beside(tmp_path: Path) -> None:
    module = make_module(tmp_path, "bert")
    data = export(module, inputs=module.inputs)
    one, other = feeds(module, (20, 20))

    together = served(data, {name: np.concatenate([one[name], other[name]]) for name in one})

    assert together == pytest.approx([served(data, one)[0], served(data, other)[0]], abs=1e-5)


def test_rounding_is_for_computing_only_and_the_weights_stay(tmp_path: Path) -> None:
    module = make_module(tmp_path, "bert")
    before = {name: value.clone() for name, value in module.state_dict().items()}
    plain = export(module, inputs=module.inputs, int8=False)

    simulate_int8(module.encoder)

    assert module.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert export(module, inputs=module.inputs, int8=False) == plain


def test_a_rounded_encoder_still_learns(tmp_path: Path) -> None:
    module = make_module(tmp_path, "bert")
    simulate_int8(module.encoder)

    feed = feeds(module, (9,))[0]
    module(*map(torch.from_numpy, feed.values())).sum().backward()

    learning = {
        name: float(value.grad.abs().sum())
        for name, value in module.named_parameters()
        if value.grad is not None
    }
    assert learning["encoder.encoder.layer.0.output.dense.weight"] > 0
    assert learning["encoder.embeddings.word_embeddings.weight"] > 0


def test_exporting_twice_gives_the_same_bytes_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = make_module(tmp_path / "encoder", "bert")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    assert export(module, inputs=module.inputs) == export(module, inputs=module.inputs)

    assert not list(here.iterdir())


def test_tables_and_products_are_in_int8_and_the_head_is_not(tmp_path: Path) -> None:
    module = make_module(tmp_path, "bert")

    small = export(module, inputs=module.inputs)

    model = onnx.load_model_from_string(small)
    floats = [
        list(one.dims)
        for one in model.graph.initializer
        if one.data_type == onnx.TensorProto.FLOAT and len(one.dims) == 2 and 1 not in one.dims
    ]
    assert sorted(floats) == [[2, 32], [32, 32]]


def test_what_is_too_far_from_the_trained_scorer_is_refused() -> None:
    assert parity([0.5, 0.25], [0.5, 0.375], bar=None) == Parity(0.125, 0.0625, 2)
    with pytest.raises(ParityError, match=r"up to 0\.1250"):
        parity([0.5, 0.25], [0.5, 0.375])
    with pytest.raises(ParityError):
        parity([0.5], [float("nan")])
