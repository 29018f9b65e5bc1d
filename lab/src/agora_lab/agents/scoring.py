"""Log-probabilities of a given answer, from llama.cpp's server.

OpenAI's chat API reports them only for text that the model generates. A llama.cpp grammar can name
tokens by id, and the server reports the log-probability a token had before grammar and
temperature. So a grammar that allows only the answer makes the server generate and score it.
"""

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PIECE_TOKENS = 256
"""Tokens scored per request, so that one finishes before a timeout at 5 tokens per second."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token and its natural log-probability."""

    text: str
    """A character of several tokens belongs to the last of them."""
    logprob: float


@dataclass(frozen=True, slots=True)
class Token:
    """A token from the server's tokenizer. Its bytes may be part of a character."""

    id: int
    data: bytes

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> "Token":
        """Read a token of the /tokenize endpoint, where part of a character is a list of bytes."""
        piece: str | list[int] = found["piece"]
        return cls(int(found["id"]), piece.encode() if isinstance(piece, str) else bytes(piece))


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
    """Yield the tokens in chunks for one request each. No chunk splits a character."""
    piece: list[Token] = []
    for run in whole_characters(tokens):
        if piece and len(piece) + len(run) > PIECE_TOKENS:
            yield piece
            piece = []
        piece += run
    if piece:
        yield piece


def forced_body(model: str, prompt: Sequence[int], forced: Sequence[Token]) -> dict[str, Any]:
    """Return the request that makes llama.cpp generate these tokens after the prompt."""
    terms = []
    room = len(forced)
    for run in whole_characters(forced):
        if len(run) == 1:
            terms.append(f"<[{run[0].id}]>")
        else:
            # A token rule rejects part of a character, so the grammar names these by their text.
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


def read_scores(found: Mapping[str, Any], forced: Sequence[Token]) -> list[TokenScore]:
    """Read the scores of forced tokens.

    Raises:
        ValueError: The server generated something else.
    """
    # The end token after the text has no bytes.
    written = [one for one in found["completion_probabilities"] if one["bytes"]]
    text = b"".join(bytes(one["bytes"]) for one in written)
    if text != b"".join(token.data for token in forced):
        raise ValueError(
            f"{len(text)} bytes that differ from the grammar's {len(forced)} tokens; "
            "is the text longer than the context?"
        )
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [
        TokenScore(decoder.decode(bytes(one["bytes"])), float(one["logprob"])) for one in written
    ]
