"""A cache of answers on disk, each keyed by a hash of the request."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def request_key(path: str, body: bytes) -> str:
    """Return the key of a request: a hash of its path on the server and its bytes.

    The server's address is not part of it: the body names the backbone, and the
    same backbone elsewhere gets the same request.
    """
    return hashlib.sha256(path.encode() + b"\n" + body).hexdigest()


class Answers:
    """A folder of answers, one small file each, that any number of processes can share.

    A file appears atomically, and the first answer to a request wins, so that later
    callers get the same one. No locks are held.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Any:
        """Return the answer under a key, or None; an unreadable file counts as absent."""
        try:
            return json.loads(self._path(key).read_bytes())
        except (OSError, ValueError):
            return None

    def keep(self, key: str, answer: Any) -> Any:
        """Store an answer and return the stored one, which may be an earlier one."""
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
                # A power loss can leave an empty file behind.
                os.replace(mine, path)
        finally:
            Path(mine).unlink(missing_ok=True)
        return answer

    def _path(self, key: str) -> Path:
        # 256 folders, so that a million answers are about four thousand files in each.
        return self._folder / key[:2] / f"{key}.json"
