from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra `train-encoders`")
pytest.importorskip("transformers", reason="training needs the extra `train-encoders`")
pytest.importorskip("onnx", reason="training needs the extra `train-encoders`")

import numpy as np
from lab.tests.scorers.make_tiny import TINY, make_model

from agora.scorers.bundle import write_bundle
from agora.scorers.encoder import Encoder, sealed


def vectors(folder: Path, model: bytes, tokenizer: bytes) -> "np.ndarray":
    bundle = write_bundle(
        folder,
        scorer="embedding",
        settings=sealed({"tokens": 24}),
        files={"model.onnx": model, "tokenizer.json": tokenizer},
    )
    return np.asarray(Encoder(bundle).encode(["ACTION look OBS box holds key 7", "dust"]))


def test_the_tiny_encoder_of_the_products_tests_is_what_export_gives_today(tmp_path: Path) -> None:
    model, tokenizer = make_model()
    committed = ((TINY / name).read_bytes() for name in ("model.onnx", "tokenizer.json"))

    made = vectors(tmp_path / "made", model, tokenizer)

    np.testing.assert_allclose(made, vectors(tmp_path / "committed", *committed), atol=1e-5)
