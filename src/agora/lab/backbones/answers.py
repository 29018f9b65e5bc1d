"""Answers that were paid for once, on disk, each under a hash of what was asked."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def request_key(path: str, body: bytes) -> str:
    """Return the name of a request: a hash of where it goes on a server and of its bytes.

    The server's address is no part of it: the body names the backbone, and the
    same backbone elsewhere is asked the same.
    """
    return hashlib.sha256(path.encode() + b"\n" + body).hexdigest()


class Answers:
    """A folder of answers, one small file each, that any number of processes may share.

    A file appears whole or not at all, and the first answer to a request stands,
    so that whoever asks later goes on with the same one. No locks are held.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Any:
        """Return the answer under a key, or None; what cannot be read counts as not there."""
        try:
            return json.loads(self._path(key).read_bytes())
        except (OSError, ValueError):
            return None

    def keep(self, key: str, answer: Any) -> Any:
        """Write an answer down and return the one that stands, which may be an earlier one."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, mine = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(answer, file, separators=(",", ":"))
            try:
                os.link(mine, path)
            except FileExistsError:
                found = self.get(key)
                if found is not None:
                    return found
                # A machine that lost its power can leave an empty file behind.
                os.replace(mine, path)
        finally:
            Path(mine).unlink(missing_ok=True)
        return answer

    def _path(self, key: str) -> Path:
        # 256 folders: a million answers are then some four thousand files in each.
        return self._folder / key[:2] / f"{key}.json"
