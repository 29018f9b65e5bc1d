"""A compressed request body made readable, within bounds.

A body that nobody can read has no model, and a request without a model cannot be routed by it.
"""

import zlib
from typing import Any

zstd: Any
try:
    from compression import zstd  # type: ignore[import-not-found,no-redef,unused-ignore]
except ImportError:
    try:
        from backports import zstd  # type: ignore[import-not-found,no-redef,unused-ignore]
    except ImportError:
        zstd = None

_PIECE = 1 << 20


class EncodingError(Exception):
    """A body that cannot be read. `status` is what the client receives."""

    def __init__(self, status: int, reason: str, problem: str) -> None:
        super().__init__(status, reason, problem)
        self.status = status
        self.reason = reason
        self.problem = problem


def known_encodings() -> tuple[str, ...]:
    """Return the encodings that can be read here."""
    return ("gzip", "deflate", *(() if zstd is None else ("zstd",)))


def inflate(body: bytes, encoding: bytes, most: int) -> bytes:
    """Return what a body says.

    Never more than `most` bytes and a piece are made of it, whatever it claims to hold.

    Args:
        body: as received.
        encoding: its Content-Encoding; `identity` and nothing leave it as it is.
        most: bytes it may have when it is readable.

    >>> inflate(zlib.compress(b"ok"), b"deflate", 10)
    b'ok'

    Raises:
        EncodingError: it is encoded in a way that is not known (415), it is broken (400), or it is
            too long (413).
    """
    name = encoding.strip().lower().decode("latin-1")
    if name in ("", "identity"):
        return body
    if name not in ("x-gzip", *known_encodings()):
        raise EncodingError(
            415,
            "encoding",
            f"the body is encoded as {name[:40]!r}; this gateway reads "
            f"{', '.join(known_encodings())} and plain bodies",
        )
    try:
        if name == "zstd":
            return _inflated_zstd(body, most)
        return _inflated(body, _window(body, name), most)
    except zlib.error:
        problem = f"the body is not valid {name}, which its Content-Encoding names"
        raise EncodingError(400, "encoding", problem) from None


def _window(body: bytes, name: str) -> int:
    if name != "deflate":
        return 16 + zlib.MAX_WBITS
    # By the book deflate has a zlib header; some leave it out.
    wrapped = len(body) >= 2 and body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0
    return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS


def _inflated(body: bytes, window: int, most: int) -> bytes:
    reader = zlib.decompressobj(window)
    pieces: list[bytes] = []
    size = 0
    rest = body
    while not reader.eof:
        piece = reader.decompress(rest, _PIECE)
        rest = reader.unconsumed_tail
        size += len(piece)
        if size > most:
            raise _too_long(most)
        if not piece and not rest and not reader.eof:
            raise zlib.error("it ends early")
        pieces.append(piece)
    if reader.unused_data:
        # A second member would be read by some servers and not by others.
        raise zlib.error("more follows its end")
    return b"".join(pieces)


def _inflated_zstd(body: bytes, most: int) -> bytes:
    reader = zstd.ZstdDecompressor()
    pieces: list[bytes] = []
    size = 0
    rest = body
    try:
        while not reader.eof:
            piece = reader.decompress(rest, _PIECE)
            rest = b""
            size += len(piece)
            if size > most:
                raise _too_long(most)
            if not piece and reader.needs_input:
                raise zlib.error("it ends early")
            pieces.append(piece)
    except zstd.ZstdError:
        raise zlib.error("it is broken") from None
    if reader.unused_data:
        raise zlib.error("more follows its end")
    return b"".join(pieces)


def _too_long(most: int) -> EncodingError:
    return EncodingError(
        413, "too_long", f"the body has more than {most:,} bytes when decompressed"
    )
