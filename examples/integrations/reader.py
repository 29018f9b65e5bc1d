"""The arguments and the tool that the programs in this folder share."""

import argparse
from pathlib import Path

from agora import Budget, Compressor

TASK = (
    "Read the files of the folder one after another with the tool read_file, from the first to "
    "the last, each once. Then say in one sentence which file interests you most, and why."
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
    """Return a compressor that begins early, since the folder is small."""
    return Compressor(
        budget=Budget(keep_ratio=asked.keep_ratio),
        edits="never" if asked.plain else "by_price",
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
