"""Inflate compressed request bodies within bounds."""

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
_BROKEN = (zlib.error, ValueError) if zstd is None else (zlib.error, ValueError, zstd.ZstdError)


def inflate(body: bytes, encoding: str, most: int) -> bytes | None:
    """Return a body without its Content-Encoding.

    None if the encoding is unknown, the body is broken, or it inflates to more than `most` bytes.
    Then the request is forwarded unchanged.

    >>> inflate(zlib.compress(b"ok"), "deflate", 10)
    b'ok'
    >>> inflate(zlib.compress(b"0" * 10_000), "deflate", 10) is None
    True
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    if name in ("gzip", "x-gzip"):
        return _inflated(zlib.decompressobj(16 + zlib.MAX_WBITS), body, most)
    if name == "deflate":
        # The standard asks for a zlib header; some clients leave it out.
        wrapped = len(body) >= 2 and body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0
        window = zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS
        return _inflated(zlib.decompressobj(window), body, most)
    if name == "zstd" and zstd is not None:
        return _inflated(zstd.ZstdDecompressor(), body, most)
    return None


def _inflated(reader: Any, body: bytes, most: int) -> bytes | None:
    pieces: list[bytes] = []
    size, rest = 0, body
    try:
        while not reader.eof:
            piece = reader.decompress(rest, _PIECE)
            # zlib returns unused bytes; zstd keeps them.
            rest = getattr(reader, "unconsumed_tail", b"")
            pieces.append(piece)
            size += len(piece)
            if size > most or (not piece and not rest and not reader.eof):
                return None
    except _BROKEN:
        return None
    return None if reader.unused_data else b"".join(pieces)
