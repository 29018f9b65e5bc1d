import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="serving needs the extra `onnx`")
pytest.importorskip("torch", reason="training needs the extra `train-encoders`")
pytest.importorskip("transformers", reason="training needs the extra `train-encoders`")
pytest.importorskip("onnx", reason="training needs the extra `train-encoders`")

import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.tests.tiny_encoder import THINGS, make_encoder, make_questions

from agora import Budget, Compressor, Rung
from agora.core.trajectory import Anchor, Step
from agora.errors import BundleError, MissingExtraError
from agora.scorers.bundle import MANIFEST, read_bundle, write_bundle
from agora.scorers.cross_encoder import CrossEncoderScorer, pair_texts
from agora.scorers.encoder import Encoder, encoder_of, sealed, tokenizer_of
from agora.testing import check_scorer
from agora_lab.labels import LabelsError
from agora_lab.train.cross_encoder import Result, train_cross_encoder
from agora_lab.train.lpft import Recipe

RECIPE = Recipe(head_epochs=1, full_epochs=8, full_rate=3e-3, patience=None)
FILES = ("model.onnx", "tokenizer.json", "calibration.json", "metrics.json", "README.md")
STEPS = [
    Step(number=n, action=f"look at {thing}", observation=f"{thing} here", tokens=9)
    for n, thing in enumerate(THINGS, start=1)
]
ANCHOR = Anchor(task="find key 2", observation="key 2 needed")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"), "mpnet")


@pytest.fixture(scope="module")
def result(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return train_cross_encoder(
        make_questions(40), encoder, RECIPE, out=tmp_path_factory.mktemp("bundle"), tokens=64
    )


def test_a_bundle_is_trained_compared_measured_and_served(result: Result) -> None:
    scorer = CrossEncoderScorer(read_bundle(result.bundle.folder))

    check_scorer(scorer)

    assert set(result.bundle.files) == set(FILES)
    assert result.parity.worst <= 0.01
    assert result.parity.pairs > 100
    assert result.metrics.auc.low <= result.metrics.auc.value <= result.metrics.auc.high
    assert result.pairs["trained"] > result.pairs["needed_trained"] > 0
    assert json.loads(result.bundle.read("metrics.json"))["auc"]["value"] > 0.5


def test_training_twice_gives_the_same_bundle(
    result: Result, encoder: Path, tmp_path: Path
) -> None:
    again = train_cross_encoder(make_questions(40), encoder, RECIPE, out=tmp_path, tokens=64)

    for name in ("model.onnx", "tokenizer.json", "calibration.json"):
        assert again.bundle.files[name] == result.bundle.files[name]


texts = st.text(max_size=60) | st.sampled_from(["[SEP] [CLS]", "key 2 here", "", "x" * 4_000])


@settings(max_examples=25, deadline=None)
@given(parts=st.lists(st.tuples(texts, texts), max_size=5), task=texts, now=texts)
def test_scores_lie_between_0_and_1_and_do_not_depend_on_the_other_steps(
    result: Result, parts: list[tuple[str, str]], task: str, now: str
) -> None:
    steps = [
        Step(number=n, action=action, observation=observation, tokens=1)
        for n, (action, observation) in enumerate(parts, start=1)
    ]
    scorer = CrossEncoderScorer(result.bundle)

    scores = scorer.score(Anchor(task, now), steps)

    assert all(0 <= score <= 1 for score in scores)
    assert list(scores) == [scorer.score(Anchor(task, now), [step])[0] for step in steps]


def test_scores_are_the_same_in_another_process_and_with_more_threads(result: Result) -> None:
    program = f"""
from pathlib import Path
from agora.scorers.bundle import read_bundle
from agora.scorers.cross_encoder import CrossEncoderScorer
from lab.tests.scorers.test_cross_encoder import ANCHOR, STEPS
bundle = read_bundle(Path({str(result.bundle.folder)!r}))
print(list(CrossEncoderScorer(bundle).score(ANCHOR, STEPS)))
"""
    said = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        cwd=Path(__file__).parents[3],
    ).stdout

    here = CrossEncoderScorer(result.bundle).score(ANCHOR, STEPS)
    assert json.loads(said.splitlines()[-1]) == list(here)
    assert CrossEncoderScorer(result.bundle, threads=2).score(ANCHOR, STEPS) == pytest.approx(here)


def test_many_threads_may_ask_at_once(result: Result) -> None:
    scorer = CrossEncoderScorer(result.bundle)
    wanted = list(scorer.score(ANCHOR, STEPS))
    found: list[list[float]] = []

    threads = [
        threading.Thread(target=lambda: found.append(list(scorer.score(ANCHOR, STEPS))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [wanted] * 8


def flipped(folder: Path, name: str, place: float) -> None:
    path = folder / name
    data = bytearray(path.read_bytes())
    data[int(place * (len(data) - 1))] ^= 0x15
    path.write_bytes(data)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0.0, 0.37, 1.0])
def test_a_flipped_byte_in_any_file_ends_on_the_next_rung(
    result: Result, tmp_path: Path, name: str, place: float
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(result.bundle.folder, folder)
    flipped(folder, name, place)
    scorer = CrossEncoderScorer(read_bundle(folder))

    with pytest.raises(BundleError):
        scorer.score(ANCHOR, STEPS)
    messages: list[dict[str, object]] = [{"role": "user", "content": "find key 2"}]
    for number in range(1, 9):
        call = {"name": "look", "arguments": json.dumps({"at": f"box {number}"})}
        calls = [{"id": f"c{number}", "type": "function", "function": call}]
        messages += [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "key 2 here " * 200},
        ]
    compressor = Compressor(scorer=scorer, budget=Budget(keep_ratio=0.25), schedule="every_call")
    assert compressor.compress(messages).rung is Rung.RULE


def test_a_flipped_byte_in_the_manifest_is_seen_or_changes_nothing(
    result: Result, tmp_path: Path
) -> None:
    size = (result.bundle.folder / MANIFEST).stat().st_size
    seen = 0
    folder = tmp_path / "copy"
    shutil.copytree(result.bundle.folder, folder)
    original = (folder / MANIFEST).read_bytes()
    for place in range(0, size, 5):
        data = bytearray(original)
        data[place] ^= 0x01
        (folder / MANIFEST).write_bytes(data)
        try:
            bundle = read_bundle(folder)
            if bundle == result.bundle.__class__(
                folder=folder,
                scorer=result.bundle.scorer,
                files=result.bundle.files,
                settings=result.bundle.settings,
            ):
                continue
            CrossEncoderScorer(bundle).score(ANCHOR, STEPS[:1])
        except (BundleError, UnicodeDecodeError):
            seen += 1
        else:
            pytest.fail(f"byte {place} was flipped: {bytes(data[place - 20 : place + 20])!r}")
    assert seen > size / 5 * 0.5


def test_a_bundle_of_another_kind_is_refused(result: Result, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path, scorer="features", files={}, settings=sealed({}))

    with pytest.raises(BundleError, match="of the kind 'features'"):
        CrossEncoderScorer(bundle).score(ANCHOR, STEPS)


@pytest.mark.parametrize(
    ("files", "tokens", "problem"),
    [
        ({}, 64, "has no model.onnx"),
        ({"model.onnx": b"no model", "tokenizer.json": b"{}"}, 64, "cannot be loaded"),
        ({"model.onnx": b"x location x", "tokenizer.json": b"{}"}, 64, "in another file"),
        ({}, "many", "wants to read 'many' tokens"),
    ],
)
def test_a_bundle_that_was_badly_made_is_refused(
    tmp_path: Path, files: dict[str, bytes], tokens: object, problem: str
) -> None:
    bundle = write_bundle(
        tmp_path, scorer="cross_encoder", files=files, settings=sealed({"tokens": tokens})
    )

    with pytest.raises(BundleError, match=problem):
        Encoder(bundle)


def test_a_model_that_asks_for_something_else_is_refused(result: Result, tmp_path: Path) -> None:
    kind = onnx.TensorProto.FLOAT
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["pixels"], ["output"])],
        "picture",
        [value("pixels", kind, [1])],
        [value("output", kind, [1])],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    files = {
        "model.onnx": model.SerializeToString(),
        "tokenizer.json": result.bundle.read("tokenizer.json"),
    }
    bundle = write_bundle(tmp_path, scorer="cross_encoder", files=files, settings=sealed({}))

    with pytest.raises(BundleError, match="asks for pixels"):
        Encoder(bundle)


def test_without_the_extra_it_is_named(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("onnxruntime", "tokenizers"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            with pytest.raises(MissingExtraError, match=r"agora-context\[onnx\]"):
                Encoder(result.bundle)


def test_nothing_asked_is_nothing_said(result: Result) -> None:
    assert list(CrossEncoderScorer(result.bundle).score(ANCHOR, [])) == []
    assert len(encoder_of(result.bundle).encode([])) == 0


@pytest.mark.parametrize("said", [b"", b"[]", b'{"slope": "x"}', b'{"slope": 1, "intercept": NaN}'])
def test_a_calibration_without_two_numbers_is_refused(
    result: Result, tmp_path: Path, said: bytes
) -> None:
    files = {name: result.bundle.read(name) for name in FILES} | {"calibration.json": said}
    bundle = write_bundle(
        tmp_path, scorer="cross_encoder", files=files, settings=result.bundle.settings
    )

    with pytest.raises(BundleError, match="has no two numbers"):
        CrossEncoderScorer(bundle).score(ANCHOR, STEPS)


def test_a_special_token_in_a_text_is_text(encoder: Path) -> None:
    tokenizer = tokenizer_of((encoder / "tokenizer.json").read_bytes(), 64)

    assert tokenizer.encode("key [SEP] 2").ids.count(3) == 1
    assert len(tokenizer.encode("key " * 99, "box " * 99).ids) == 64


def test_a_pair_is_cut_at_so_many_characters_a_side() -> None:
    step = Step(number=1, action="a" * 4_000, observation="b" * 4_000, tokens=1)

    [(anchor, text)] = pair_texts(Anchor("t" * 4_000, "o" * 4_000), [step])

    assert len(anchor) == len(text) == 1_500


def test_a_bundle_is_loaded_once(result: Result) -> None:
    assert encoder_of(result.bundle) is encoder_of(read_bundle(result.bundle.folder))


def test_an_encoder_without_its_files_and_labels_without_tasks_are_refused(
    encoder: Path, tmp_path: Path
) -> None:
    with pytest.raises(BundleError, match=r"tokenizer\.json"):
        train_cross_encoder(make_questions(), tmp_path / "none", out=tmp_path)
    shutil.copy(encoder / "tokenizer.json", tmp_path)
    with pytest.raises(BundleError, match="holds no encoder"):
        train_cross_encoder(make_questions(), tmp_path, out=tmp_path)
    with pytest.raises(LabelsError, match="too few tasks"):
        train_cross_encoder(make_questions(1), encoder, out=tmp_path)
