"""Scores a text with a backbone: the log-probability of each of its tokens.

OpenAI's chat API does not return that for input text. Two kinds of server do, each
in its own way:

`llama.cpp` has no echo: /v1/completions accepts the option and ignores it. But its
grammars can name tokens by id, and the log-probability it reports for a chosen
token is the one before grammar and temperature. So the grammar allows only the
text, and the server generates it with the log-probability of each token. One
request covers several hundred tokens at generation speed; a cached prompt is not
read again. For a character of several tokens (an emoji) it reports only the last
token.

`echo` servers (vLLM, llama-cpp-python, the older OpenAI API) read the text in one
pass and return its log-probabilities.
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


def echo_body(model: str, after: str, text: str) -> dict[str, Any]:
    """Return the request that echoes the prompt with its log-probabilities."""
    return {
        "model": model,
        "prompt": after + text,
        # Not 0: that means "no limit" to some servers.
        "max_tokens": 1,
        "temperature": 0.0,
        "echo": True,
        "logprobs": 1,
    }


def echo_record(found: Any, after: str, text: str) -> list[list[Any]]:
    """Return `[text in hex, log-probability]` per token of the text.

    A token that starts before the text and ends in it counts as part of the text: the
    tokenizer decides where the two meet.

    Raises:
        ValueError: the server gave no log-probabilities for the prompt.
    """
    given = found["choices"][0].get("logprobs") or {}
    if not given.get("text_offset") or given["text_offset"][0] != 0:
        raise ValueError("gave no log-probabilities for the prompt: it does not support echo")
    record = []
    end = len(after) + len(text)
    starts = [*given["text_offset"], end]
    for logprob, start, next_start in zip(
        given["token_logprobs"], starts, starts[1:], strict=False
    ):
        stop = min(next_start, end)
        if stop > len(after) and start < end and logprob is not None:
            piece = (after + text)[max(start, len(after)) : stop]
            record.append([piece.encode("utf-8", "surrogatepass").hex(), float(logprob)])
    return record


def read_record(record: Iterable[Sequence[Any]]) -> tuple[TokenScore, ...]:
    """Return the scores in a record."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return tuple(
        TokenScore(decoder.decode(bytes.fromhex(data)), logprob) for data, logprob in record
    )
