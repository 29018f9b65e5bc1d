import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="serving needs the extra `onnx`")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agora import Compressor, Rung
from agora.core.trajectory import Anchor, Call, Step
from agora.errors import BundleError
from agora.scorers import embedding, encoder
from agora.scorers.bundle import MANIFEST, Bundle, read_bundle, write_bundle
from agora.scorers.embedding import (
    MINILM_SHA256,
    EmbeddingScorer,
    Head,
    read_head,
    step_text,
)
from agora.scorers.encoder import Encoder, sealed
from agora.scorers.structure import FEATURES, VALUES
from agora.scorers.tables import Table, Tables, write
from agora.testing import check_scorer

WIDTH = 32
MINILM = Path(__file__).parents[2] / "bundles" / "minilm" / "src" / "agora_minilm"
TINY = Path(__file__).with_name("tiny_encoder")
TOKENS = 24


def make_model() -> tuple[bytes, bytes]:
    """Return an encoder of two layers with random weights, and a tokenizer; the lab made them."""
    return (TINY / "model.onnx").read_bytes(), (TINY / "tokenizer.json").read_bytes()


def make_head(directions: int = 8) -> Head:
    chance = np.random.default_rng(0)

    def some(*shape: int) -> Any:
        return chance.normal(size=shape).astype(np.float32)

    return Head(
        center=0.1 * some(WIDTH),
        directions=some(directions, WIDTH),
        step=some(directions),
        both=some(directions),
        margin=0.5,
        intercept=-1.0,
        slope=0.9,
        shift=-0.1,
    )


def make_tables() -> bytes:
    chance = np.random.default_rng(1)
    rows = tuple(tuple(map(float, row)) for row in chance.normal(size=(VALUES, VALUES)))
    tables = tuple(Table(at, at + 1, rows) for at in range(0, len(FEATURES) - 1, 2))
    return write(Tables(FEATURES, VALUES, -2.0, tables), {}).encode()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    model, tokenizer = make_model()
    return write_bundle(
        tmp_path_factory.mktemp("bundle"),
        scorer="embedding",
        settings=sealed({"tokens": TOKENS}),
        files={
            "model.onnx": model,
            "tokenizer.json": tokenizer,
            "head.json": make_head().write(),
            "weights.json": make_tables(),
            "README.md": b"# A scorer of random weights\n",
        },
    )


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Start and end with nothing loaded or remembered."""
    yield
    embedding._model.cache_clear()
    encoder.encoder_of.cache_clear()


def make_steps(count: int, start: int = 0) -> list[Step]:
    return [
        Step(
            number=n + 1,
            action=f"look box {start + n}",
            observation=f"box {start + n} holds key {7 * (start + n)} " + "and dust " * (n % 9),
            tokens=9,
        )
        for n in range(count)
    ]


def score(bundle: Bundle, steps: list[Step], now: str = "key 7") -> list[float]:
    return list(EmbeddingScorer(bundle).score(Anchor("find the key", now), steps))


def test_it_passes_the_check_of_all_scorers(made: Bundle) -> None:
    check_scorer(EmbeddingScorer(made))


def test_a_trajectory_that_grew_by_one_step_costs_one_pass_however_long_it_is(
    made: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[Any] = []
    run = Encoder.run

    def counted(self: Encoder, feed: Any) -> Any:
        passes.append(feed)
        return run(self, feed)

    monkeypatch.setattr(Encoder, "run", counted)
    for count in (5, 60):
        score(made, make_steps(count, start=1_000 * count))
        passes.clear()

        score(made, make_steps(count + 1, start=1_000 * count), now=f"now {count}")

        assert len(passes) == 1


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=6), st.randoms())
def test_scores_do_not_depend_on_what_was_read_before(
    made: Bundle, texts: list[str], chance: Any
) -> None:
    steps = [
        Step(number=n, action="look", observation=text, tokens=1)
        for n, text in enumerate(texts, start=1)
    ]
    embedding._model.cache_clear()
    cold = score(made, steps)

    for step in chance.sample(make_steps(3) + steps, len(steps) + 3):
        score(made, [step])

    assert score(made, steps) == cold
    embedding._model.cache_clear()
    for step in chance.sample(steps, len(steps)):
        score(made, [step])
    assert score(made, steps) == cold


def test_a_text_beside_longer_ones_gets_the_vector_it_gets_alone(made: Bundle) -> None:
    texts = [step_text(step, TOKENS) for step in make_steps(9)]
    found = Encoder(made).encode(texts)

    for text, row in zip(texts, found, strict=True):
        assert np.abs(Encoder(made).encode([text])[0] - row).max() == 0


def test_calls_count_for_what_a_step_says(made: Bundle) -> None:
    steps = make_steps(3)
    called = [steps[0]._replace(calls=(Call("look", '{"box": "K9"}'),)), *steps[1:]]

    assert score(made, steps) != score(made, called)


def test_scores_are_the_same_in_another_process_with_another_history(made: Bundle) -> None:
    program = """
import sys
from pathlib import Path
from agora.core.trajectory import Anchor, Step
from agora.scorers.bundle import read_bundle
from agora.scorers.embedding import EmbeddingScorer
scorer = EmbeddingScorer(read_bundle(Path(sys.argv[1])))
steps = [Step(number=n, action=f"look {n}", observation=f"HAT{n % 3} key {n}", tokens=9)
         for n in range(1, 30)]
for start in range(int(sys.argv[2])):
    scorer.score(Anchor("find key 7", "HAT1"), steps[start::2])
print(scorer.score(Anchor("find key 7", "HAT1 key 3"), steps))
"""
    said = {
        subprocess.run(
            [sys.executable, "-c", program, str(made.folder), before],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": before, "PATH": ""},
        ).stdout
        for before in ("0", "3")
    }

    assert len(said) == 1


def test_what_is_forgotten_is_read_again_to_the_same_vector() -> None:
    read: list[str] = []

    def compute(step: Step) -> Any:
        read.append(step.observation)
        return np.array([float(len(step.observation))], dtype=np.float32)

    remembered = embedding._Remembered(compute, most_characters=5 * 2 * 2_100)
    steps = make_steps(40)
    for _ in range(2):
        assert [float(remembered(step)[0]) for step in steps] == [
            len(step.observation) for step in steps
        ]
    assert len(read) == 80
    for _ in range(9):
        remembered(steps[-1])
        remembered(steps[-2])
    assert len(read) == 80
    large = steps[0]._replace(observation="x" * 100_000)
    assert remembered(large)[0] == remembered(large)[0] == 100_000
    assert len(remembered._new) + len(remembered._old) <= 10


def long_chat() -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [{"role": "user", "content": "find the key"}]
    for n in range(12):
        function = {"name": "look", "arguments": f'{{"box": "B{n}00"}}'}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = f"box B{n}00 holds K{n}11 " + "and dust " * 40
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return messages


def test_a_compressor_scores_with_it(made: Bundle) -> None:
    compression = Compressor(scorer=EmbeddingScorer(made), schedule="every_call").compress(
        long_chat()
    )

    assert compression.changed
    assert compression.rung is Rung.SCORED


@pytest.mark.parametrize(
    "name", ["model.onnx", "tokenizer.json", "head.json", "weights.json", "README.md"]
)
@pytest.mark.parametrize("at", [0, 0.5, 1])
def test_a_flipped_byte_in_any_file_ends_on_the_next_rung(
    made: Bundle, tmp_path: Path, name: str, at: float
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(made.folder, folder)
    data = bytearray((folder / name).read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    (folder / name).write_bytes(data)
    compressor = Compressor(scorer=EmbeddingScorer(read_bundle(folder)), schedule="every_call")

    compression = compressor.compress(long_chat())

    assert compression.changed
    assert compression.rung is Rung.RULE
    assert "SHA-256" in compression.detail


def test_settings_that_were_changed_end_on_the_next_rung(made: Bundle, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(made.folder, folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["settings"]["tokens"] = 16
    (folder / MANIFEST).write_text(json.dumps(manifest))

    compression = Compressor(
        scorer=EmbeddingScorer(read_bundle(folder)), schedule="every_call"
    ).compress(long_chat())

    assert compression.rung is Rung.RULE
    assert "settings" in compression.detail


def test_a_head_comes_back_from_its_file_as_it_was() -> None:
    head = make_head()
    again = read_head(head.write())
    rows = np.random.default_rng(1).normal(size=(5, WIDTH)).astype(np.float32)
    sums = np.zeros(5, dtype=np.float32)

    assert again.logits(sums, rows) == pytest.approx(head.logits(sums, rows), abs=1e-3)
    assert read_head(again.write()).write() == again.write()


def test_a_head_is_the_regression_that_it_says_it_is() -> None:
    head = make_head()
    rows = np.random.default_rng(1).normal(size=(5, WIDTH)).astype(np.float32)
    sums = np.arange(5, dtype=np.float32)
    u = (rows - head.center) @ head.directions.T

    wanted = head.margin * sums + u @ head.step + (u * u[-1]) @ head.both + head.intercept

    assert head.logits(sums, rows) == pytest.approx(wanted, abs=1e-2)


def damaged(**changes: object) -> bytes:
    return json.dumps({**json.loads(make_head().write()), **changes}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        damaged(format="other"),
        damaged(margin=None),
        damaged(margin="much"),
        damaged(margin=[1.0]),
        damaged(slope=float("nan")),
        damaged(shift=1e9),
        damaged(shift=10**400),
        damaged(center=[0.0]),
        damaged(step=[0.0] * 7),
        damaged(both=[[0.0] * 8]),
        damaged(directions=[]),
        damaged(directions=[0.0] * WIDTH),
        damaged(directions=[[0.0] * WIDTH, [0.0]]),
    ],
)
def test_a_head_that_is_not_right_is_refused(data: bytes) -> None:
    with pytest.raises(BundleError, match="train or install it again"):
        read_head(data)


def test_a_head_for_other_vectors_is_refused(made: Bundle, tmp_path: Path) -> None:
    head = make_head()
    small = replace(head, center=head.center[:8], directions=head.directions[:, :8])
    files = {name: made.read(name) for name in made.files} | {"head.json": small.write()}
    bundle = write_bundle(tmp_path, scorer="embedding", files=files, settings=made.settings)

    with pytest.raises(BundleError, match="vectors of 8 numbers"):
        score(bundle, make_steps(2))


@pytest.mark.parametrize("module", ["onnxruntime", "tokenizers", "numpy"])
def test_without_the_extra_the_error_names_it(made: Bundle, module: str) -> None:
    program = f"""
import sys
sys.modules[{module!r}] = None
from pathlib import Path
from agora import Compressor
from agora.core.trajectory import Anchor, Step
from agora.errors import MissingExtraError
from agora.scorers.bundle import read_bundle
from agora.scorers.embedding import EmbeddingScorer
step = Step(number=1, action="look", observation="", tokens=1)
try:
    EmbeddingScorer(read_bundle(Path(sys.argv[1]))).score(Anchor("", ""), [step])
except MissingExtraError as error:
    print(error)
"""
    found = subprocess.run(
        [sys.executable, "-c", program, str(made.folder)],
        capture_output=True,
        check=True,
        text=True,
        env={"PATH": ""},
    )

    assert "agora-context[onnx]" in found.stdout


@pytest.mark.skipif(
    not MINILM.is_dir(), reason="the distribution of weights is not next to this one"
)
def test_the_shipped_bundle_is_small_pinned_and_scores() -> None:
    bundle = read_bundle(MINILM, sha256=MINILM_SHA256)

    scores = score(bundle, make_steps(3))

    assert sum(len(bundle.read(name)) for name in bundle.files) <= 30_000_000
    assert all(0 <= one <= 1 for one in scores)
    assert {path.name for path in MINILM.iterdir() if path.is_file()} == {
        *bundle.files,
        MANIFEST,
        "__init__.py",
    }
