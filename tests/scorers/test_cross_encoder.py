import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="serving needs the extra `onnx`")

from agora import Compressor, FallbackLevel, Query, Step, load_scorer

# Private: an encoder made by hand, without weights.
from agora.scorers import encoder, write_bundle
from agora.scorers.atoms import pair_texts
from agora.scorers.bundle import MANIFEST, Bundle, sealed
from agora.scorers.cross_encoder import CrossEncoderScorer
from agora.scorers.encoder import Encoder
from agora.testing import check_scorer

TINY = Path(__file__).with_name("tiny_encoder")
"""An encoder of two layers with random weights, and its tokenizer."""
NAMES = ("model.onnx", "tokenizer.json")
TOKENS = 24
STEPS = [
    Step(number=n, action=f"look box {n}", observation=f"box {n} holds key {7 * n}", tokens=9)
    for n in range(1, 6)
]
ANCHOR = Query("find the key", "key 7")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_bundle(
        tmp_path_factory.mktemp("bundle"),
        scorer="cross_encoder",
        settings=sealed({"tokens": TOKENS}),
        files={name: (TINY / name).read_bytes() for name in NAMES},
    )


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """End with nothing loaded."""
    yield
    encoder.encoder_of.cache_clear()


def long_chat() -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [{"role": "user", "content": "find the key"}]
    for n in range(12):
        function = {"name": "look", "arguments": f'{{"box": "B{n}00"}}'}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = f"box B{n}00 holds K{n}11 " + "and dust " * 40
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return messages


def compressed_with(folder: Path) -> Any:
    return Compressor(scorer=load_scorer(folder), edits="every_call").compress(long_chat())


def test_it_passes_the_check_of_all_scorers(made: Bundle) -> None:
    check_scorer(CrossEncoderScorer(made))


def test_a_compressor_scores_with_it(made: Bundle) -> None:
    compression = compressed_with(made.folder)

    assert compression.changed
    assert compression.fallback_level is FallbackLevel.NONE


def test_a_pair_is_scored_the_same_alone_and_among_others(made: Bundle) -> None:
    scores = CrossEncoderScorer(made).score(ANCHOR, STEPS)

    assert list(scores) == [CrossEncoderScorer(made).score(ANCHOR, [s])[0] for s in STEPS]
    pairs = pair_texts(ANCHOR, STEPS)
    rows = Encoder(made).encode(pairs)
    assert all(
        (Encoder(made).encode([p])[0] == row).all() for p, row in zip(pairs, rows, strict=True)
    )


def test_scores_are_the_same_in_another_process(made: Bundle) -> None:
    program = """
import sys
from pathlib import Path
from agora.scorers import load_scorer
from agora.core.trajectory import Query, Step
steps = [Step(number=n, action=f"look {n}", observation=f"key {n}", tokens=9) for n in range(9)]
print(list(load_scorer(Path(sys.argv[1])).score(Query("find key 7", "key 3"), steps)))
"""
    said = {
        subprocess.run(
            [sys.executable, "-c", program, str(made.folder)],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("0", "3")
    }

    assert len(said) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("at", [0, 0.5, 1])
def test_a_flipped_byte_in_any_file_ends_on_the_next_rung(
    made: Bundle, tmp_path: Path, name: str, at: float
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(made.folder, folder)
    data = bytearray((folder / name).read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    (folder / name).write_bytes(data)

    compression = compressed_with(folder)

    assert compression.changed
    assert compression.fallback_level is FallbackLevel.PARTIAL
    assert "SHA-256" in compression.detail


def test_settings_that_were_changed_end_on_the_next_rung(made: Bundle, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(made.folder, folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["settings"]["tokens"] = 16
    (folder / MANIFEST).write_text(json.dumps(manifest))

    compression = compressed_with(folder)

    assert compression.fallback_level is FallbackLevel.PARTIAL
    assert "settings" in compression.detail


@pytest.mark.parametrize("module", ["onnxruntime", "tokenizers"])
def test_without_the_extra_the_error_names_it(made: Bundle, module: str) -> None:
    program = f"""
import sys
sys.modules[{module!r}] = None
from pathlib import Path
from agora.core.trajectory import Query
from agora.errors import MissingExtraError
from agora.scorers import load_scorer
try:
    load_scorer(Path(sys.argv[1])).score(Query("", ""), [])
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

    assert "[onnx]" in found.stdout
