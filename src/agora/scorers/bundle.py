"""A bundle: a folder of data files with a hash for each. Nothing in it is executed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agora.errors import BundleError

MANIFEST = "bundle.json"
FORMAT = "agora-bundle-1"
_MOST_MANIFEST_BYTES = 100_000
_MOST_BYTES = 2_000_000_000
"""The largest file that is read: larger than any encoder that can score a step in time."""
_AGAIN = "train or install it again"
CROSS_ENCODER = "cross_encoder"
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
TOKENS = 512
"""Subwords of a pair that a cross-encoder reads, as in the paper."""
_SEAL = "sha256"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The files of a trained scorer and its settings."""

    folder: Path
    scorer: str
    """The kind of scorer that it is for."""
    files: Mapping[str, str] = field(hash=False)
    """The SHA-256 of each file, by name."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of the training that serving has to repeat."""

    def read(self, name: str) -> bytes:
        """Return the content of a file, checked against its hash.

        Raises:
            BundleError: The file is missing or was changed.
        """
        expected = self.files.get(name)
        if expected is None:
            raise BundleError(str(self.folder), f"has no hash of {name} in its {MANIFEST}")
        data = _bytes(self.folder / name, _MOST_BYTES)
        if hashlib.sha256(data).hexdigest() != expected:
            raise BundleError(
                str(self.folder / name), f"does not match the SHA-256 in its manifest; {_AGAIN}"
            )
        return data


def read_bundle(folder: Path, *, sha256: str | None = None) -> Bundle:
    """Return the bundle in a folder. Only its manifest is read now, files when they are used.

    With `sha256` the manifest must have that hash. It holds the hashes of all files.

    Raises:
        BundleError: The manifest is missing or cannot be read.
    """
    path = folder / MANIFEST
    data = _bytes(path, _MOST_MANIFEST_BYTES)
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise BundleError(str(path), f"does not match the SHA-256 that is pinned for it; {_AGAIN}")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BundleError(str(path), f"is not of the format {FORMAT}")
    scorer, files, settings = found.get("scorer"), found.get("files"), found.get("settings", {})
    if not isinstance(scorer, str) or not isinstance(settings, dict):
        raise BundleError(str(path), f"does not say what scorer it is for; {_AGAIN}")
    if not (isinstance(files, dict) and all(_is_plain(name, files[name]) for name in files)):
        raise BundleError(str(path), f"does not list its files with their hashes; {_AGAIN}")
    return Bundle(folder=folder, scorer=scorer, files=files, settings=settings)


def write_bundle(
    folder: Path,
    *,
    scorer: str,
    files: Mapping[str, bytes],
    settings: Mapping[str, Any] | None = None,
) -> Bundle:
    """Write the files and then the manifest, so that a half-written bundle is not one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    manifest = {
        "format": FORMAT,
        "scorer": scorer,
        "settings": dict(settings or {}),
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return read_bundle(folder)


def write_cross_encoder(
    folder: Path,
    *,
    model: bytes,
    tokenizer: bytes,
    characters: int,
    tokens: int = TOKENS,
    files: Mapping[str, bytes] | None = None,
) -> Bundle:
    """Write a scorer of the paper's kind, for `agora.load_scorer(folder)`.

    Args:
        folder: The folder to write to.
        model: An ONNX model from token ids to two logits a pair.
        tokenizer: The `tokenizer.json` of the model.
        characters: How many characters of each side are read.
        tokens: How many subwords of a pair are read.
        files: Further files, such as the record of the training.
    """
    return write_bundle(
        folder,
        scorer=CROSS_ENCODER,
        files={**(files or {}), MODEL: model, TOKENIZER: tokenizer},
        settings=sealed({"tokens": tokens, "characters": characters}),
    )


def sealed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with their hash, for the manifest of a bundle.

    A manifest has the hash of every file and none of itself. Without this hash, one wrong digit in
    the settings could make a scorer read half of each text unnoticed.

    >>> sorted(sealed({"tokens": 512}))
    ['sha256', 'tokens']
    """
    return {**settings, _SEAL: _hash(settings)}


def unsealed(bundle: Bundle) -> dict[str, Any]:
    """Return the settings of a bundle without their hash.

    Raises:
        BundleError: The settings do not match their hash.
    """
    settings = {name: value for name, value in bundle.settings.items() if name != _SEAL}
    if bundle.settings.get(_SEAL) != _hash(settings):
        raise BundleError(str(bundle.folder), f"lacks the settings it was written with; {_AGAIN}")
    return settings


def _hash(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode()).hexdigest()


def _is_plain(name: object, sha256: object) -> bool:
    """Return True if the entry is the name of a file in the folder, with a hash."""
    return (
        isinstance(name, str)
        and isinstance(sha256, str)
        and name == Path(name).name
        and name not in ("", "..")
        and "\\" not in name
    )


def _bytes(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            if file.seek(0, 2) > most:
                raise BundleError(str(path), f"has more than {most:,} bytes")
            file.seek(0)
            return file.read()
    except OSError as error:
        raise BundleError(str(path), f"cannot be read: {error.strerror or error}") from error
