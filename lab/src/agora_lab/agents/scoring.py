"""Scores a text with a backbone: the log-probability of each of its tokens.

OpenAI's chat API does not return that for input text. A llama.cpp server does, in a way: its
grammars can name tokens by id, and the log-probability it reports for a chosen
token is the one before grammar and temperature. So the grammar allows only the
text, and the server generates it with the log-probability of each token. One
request covers several hundred tokens at generation speed; a cached prompt is not
read again. For a character of several tokens (an emoji) it reports only the last
token.
"""

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PIECE_TOKENS = 256
"""Tokens scored per request: few enough to finish before a timeout at 5 tokens per second."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token and its log-probability (natural logarithm) in context."""

    text: str
    """Joined, the texts give the whole. A character of several tokens belongs to the last one."""
    logprob: float


@dataclass(frozen=True, slots=True)
class Token:
    """A token from a tokenizer. Its bytes may be part of a character."""

    id: int
    data: bytes


def read_tokens(found: Any) -> list[list[Any]]:
    """Return `[id, bytes in hex]` per token from a /tokenize response with pieces."""
    record: list[list[Any]] = []
    for token in found["tokens"]:
        piece: str | list[int] = token["piece"]
        # A piece that splits a character comes as a list of bytes.
        data = piece.encode() if isinstance(piece, str) else bytes(piece)
        record.append([int(token["id"]), data.hex()])
    return record


def whole_characters(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Yield the tokens in the smallest runs that split no character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    run: list[Token] = []
    for token in tokens:
        run.append(token)
        decoder.decode(token.data)
        if not decoder.getstate()[0]:
            yield run
            run = []
    if run:
        yield run


def pieces(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Yield the tokens in chunks for one request each, never splitting a character."""
    piece: list[Token] = []
    for run in whole_characters(tokens):
        if piece and len(piece) + len(run) > PIECE_TOKENS:
            yield piece
            piece = []
        piece += run
    if piece:
        yield piece


def forced_body(model: str, prompt: Sequence[int], forced: Sequence[Token]) -> dict[str, Any]:
    """Return the llama.cpp request that forces these tokens after the prompt."""
    terms = []
    room = len(forced)
    for run in whole_characters(forced):
        if len(run) == 1:
            terms.append(f"<[{run[0].id}]>")
        else:
            # A grammar's token rule rejects part of a character, so these are given by their
            # text, and the server may tokenise it differently.
            text = b"".join(token.data for token in run)
            terms.append(json.dumps(text.decode("utf-8", "replace"), ensure_ascii=False))
            room += len(text)
    return {
        "model": model,
        "prompt": list(prompt),
        "n_predict": room,
        "temperature": 0.0,
        "n_probs": 1,
        "grammar": "root ::= " + " ".join(terms),
        "cache_prompt": True,
        "response_fields": ["completion_probabilities"],
    }


def forced_record(found: Any, forced: Sequence[Token]) -> list[list[Any]]:
    """Return `[bytes in hex, log-probability]` per token, for the answer cache.

    Raises:
        ValueError: the server wrote something else.
    """
    record: list[list[Any]] = [
        [bytes(token["bytes"]).hex(), float(token["logprob"])]
        for token in found["completion_probabilities"]
        # The end token after the text is not needed.
        if token["bytes"]
    ]
    written = "".join(data for data, _ in record)
    if written != b"".join(token.data for token in forced).hex():
        raise ValueError(
            f"wrote {len(written) // 2} bytes that differ from the grammar's "
            f"{len(forced)} tokens; is the text longer than the context?"
        )
    return record


def read_record(record: Iterable[Sequence[Any]]) -> tuple[TokenScore, ...]:
    """Return the scores in a record."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return tuple(
        TokenScore(decoder.decode(bytes.fromhex(data)), logprob) for data, logprob in record
    )
