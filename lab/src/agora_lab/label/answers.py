"""The answer to each ask of a plan, as rows of the Parquet files that a run writes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from agora_lab.labels import LabelsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answered ask: the backbone's samples, or its score of the recorded action."""

    key: str
    kind: str
    case: int
    anchor: int
    candidate: int
    texts: tuple[str, ...] = ()
    """The samples, verbatim."""
    logprob: float = 0.0
    """Log-probability of the continuation, summed over its tokens."""
    logprob_tokens: int = 0
    input_tokens: int = 0
    """Prompt tokens as counted by the server, cached or not."""
    cached_tokens: int = 0
    output_tokens: int = 0
    attempts: int = 1
    error: str = ""
    """Why there is no answer; empty if there is one."""


def answer_schema() -> Any:
    """Return the Arrow schema of answers."""
    pa, _ = _arrow()
    text, number = pa.string(), pa.int64()
    return pa.schema(
        [
            ("key", text),
            ("kind", text),
            ("case", number),
            ("anchor", pa.int32()),
            ("candidate", pa.int32()),
            ("texts", pa.list_(text)),
            ("logprob", pa.float64()),
            ("logprob_tokens", pa.int32()),
            ("input_tokens", number),
            ("cached_tokens", number),
            ("output_tokens", number),
            ("attempts", pa.int32()),
            ("error", text),
        ]
    )


def read_answers(paths: Iterable[Path]) -> Iterator[Answered]:
    """Return the answers in files and in run folders, without failed ones.

    Of two answers under one key, the first wins.

    Raises:
        LabelsError: a file holds something else.
    """
    pa, pq = _arrow()
    names = [field.name for field in fields(Answered)]
    seen: set[bytes] = set()
    for path in paths:
        # A run keeps unfinished answers in other folders next to this one.
        folder = path / "answers" if (path / "answers").is_dir() else path
        files = sorted(folder.rglob("*.parquet")) if path.is_dir() else [path]
        for file in files:
            try:
                with pq.ParquetFile(file) as opened:
                    if not set(names) <= set(opened.schema_arrow.names):
                        raise LabelsError(
                            str(file), f"lacks some of the columns {', '.join(names)}"
                        )
                    for batch in opened.iter_batches(columns=names):
                        for row in batch.to_pylist():
                            digest = bytes.fromhex(row["key"])
                            if row["error"] or digest in seen:
                                continue
                            seen.add(digest)
                            row["texts"] = tuple(row["texts"] or ())
                            yield Answered(**row)
            except (OSError, pa.ArrowException) as error:
                raise LabelsError(str(file), f"is not readable Parquet: {error}") from error


def _arrow() -> tuple[Any, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa, pq
