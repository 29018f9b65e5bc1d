"""Recorded sessions from archives in the data folder."""

import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLAUDE_CODE = Path("claude-code") / "sessions.tar.xz"
"""Where the sessions of Claude Code are in the data folder."""


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """Unpack an archive into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        yield Path(folder)
