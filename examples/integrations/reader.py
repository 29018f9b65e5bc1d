"""What the programs in this folder share: their arguments, their tool, and a tally of tokens."""

import argparse
import logging
import sys
from pathlib import Path

from agora import Budget, Compressor
from agora.core.prices import sheet_for

TASK = (
    "Read the files of the folder one after another with the tool read_file, from the first to "
    "the last, each once. Then say in one sentence which file interests you most, and why."
)


class Tally(logging.Handler):
    """Adds up what each compression made of its prompt, from the log of the integrations."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.calls = self.before = self.after = 0
        log = logging.getLogger("agora.integrations")
        log.setLevel(logging.DEBUG)
        log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take in one record."""
        compression = getattr(record, "compression", None)
        if compression is not None:
            self.calls += 1
            self.before += compression.tokens_before
            self.after += compression.tokens_after
        elif record.levelno >= logging.WARNING:
            sys.stderr.write(f"{record.getMessage()}\n")

    def __str__(self) -> str:
        less = 1 - self.after / self.before if self.before else 0.0
        return (
            f"{self.calls} calls, prompt tokens {self.before:,} -> {self.after:,}, {less:.0%} less"
        )


def arguments(about: str | None) -> argparse.Namespace:
    """Return the arguments of a program: a server, a model, a folder."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--base-url", default="http://127.0.0.1:8080/v1", help="OpenAI-compatible")
    parser.add_argument("--model", default="self-hosted")
    parser.add_argument("--api-key", default="none")
    folder = Path(__file__).parents[2] / "docs/explanation"
    parser.add_argument("--folder", type=Path, default=folder)
    parser.add_argument("--files", type=int, default=12, help="at most")
    parser.add_argument("--keep-ratio", type=float, default=0.25)
    parser.add_argument("--min-tokens", type=int, default=1_000)
    parser.add_argument("--plain", action="store_true", help="elide nothing, for comparison")
    return parser.parse_args()


def compressor_for(asked: argparse.Namespace) -> Compressor:
    """Return a compressor for a server of one's own, where a changed prefix costs nothing extra."""
    return Compressor(
        budget=Budget(keep_ratio=asked.keep_ratio),
        schedule="never" if asked.plain else "by_price",
        sheet=sheet_for("self-hosted"),
        min_tokens=asked.min_tokens,
    )


_LEFT: list[str] = []
"""The files of the task that have not been read yet."""


def task(folder: Path, most: int) -> str:
    """Return the task with the names of the files."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".md", ".txt"))
    _LEFT[:] = names[:most]
    return f"{TASK}\n\nThe files: {', '.join(_LEFT)}"


def read_file(folder: Path, name: str) -> str:
    """Return the text of a file of the folder, and of no other, and which one is next."""
    path = (folder / name).resolve()
    if path.parent != folder.resolve() or not path.is_file():
        return f"There is no file {name!r}."
    if name in _LEFT:
        _LEFT.remove(name)
    # A small model reads the first file forever unless told otherwise.
    next_ = f"Now read {_LEFT[0]} with read_file." if _LEFT else "That was the last. Answer now."
    return f"{path.read_text(encoding='utf-8')}\n\n{next_}"
