"""How likely a backbone finds a text: the log-probability of each of its tokens.

OpenAI's chat interface does not give that for text that was put in. Two kinds
of server do, each its own way:

`llama.cpp` has no echo: /v1/completions takes the option and passes over it.
But its grammars may name tokens by their ids, and the log-probability it
reports of a token it chose is the one before grammar and temperature. So the
text is made the only one that the grammar allows, and the server writes it,
with what it thought of each token. One request for some hundreds of tokens, at
the speed of generation; a prompt that was read before is not read again. Of a
character that takes several tokens (an emoji) it reports the last token only.

`echo` servers (vLLM, llama-cpp-python, the older OpenAI interface) read the
text in one go and give back its log-probabilities.
"""

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PIECE_TOKENS = 256
"""What one request scores: little enough to be done before a timeout, even at 5 tokens a second."""


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token, and the natural logarithm of how likely it was where it stands."""

    text: str
    """Texts joined give the whole. A character that takes several tokens is at the last of them."""
    logprob: float


@dataclass(frozen=True, slots=True)
class Token:
    """A token as a tokenizer gives it. Its bytes may be a piece of a character."""

    id: int
    data: bytes


def read_tokens(found: Any) -> list[list[Any]]:
    """Return `[id, bytes in hex]` per token of what /tokenize answers with pieces."""
    record: list[list[Any]] = []
    for token in found["tokens"]:
        piece: str | list[int] = token["piece"]
        # A piece that is no whole characters comes as a list of its bytes.
        data = piece.encode() if isinstance(piece, str) else bytes(piece)
        record.append([int(token["id"]), data.hex()])
    return record


def whole_characters(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Yield the tokens in the smallest runs that begin and end between characters."""
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
    """Yield the tokens in pieces that one request may score, never cut inside a character."""
    piece: list[Token] = []
    for run in whole_characters(tokens):
        if piece and len(piece) + len(run) > PIECE_TOKENS:
            yield piece
            piece = []
        piece += run
    if piece:
        yield piece


def forced_body(model: str, prompt: Sequence[int], forced: Sequence[Token]) -> dict[str, Any]:
    """Return the llama.cpp request in which only these tokens can be written after the prompt."""
    terms = []
    room = len(forced)
    for run in whole_characters(forced):
        if len(run) == 1:
            terms.append(f"<[{run[0].id}]>")
        else:
            # A grammar's token rule refuses a piece of a character, so these are told by their
            # text, and the server may cut it otherwise.
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
    """Return `[bytes in hex, log-probability]` per token, for the answers folder.

    Raises:
        ValueError: the server wrote something else.
    """
    record: list[list[Any]] = [
        [bytes(token["bytes"]).hex(), float(token["logprob"])]
        for token in found["completion_probabilities"]
        # After the text comes the end, which nobody asked about.
        if token["bytes"]
    ]
    written = "".join(data for data, _ in record)
    if written != b"".join(token.data for token in forced).hex():
        raise ValueError(
            f"wrote {len(written) // 2} bytes that are not those of the grammar's "
            f"{len(forced)} tokens; is the text longer than the context?"
        )
    return record


def echo_body(model: str, after: str, text: str) -> dict[str, Any]:
    """Return the request in which the prompt itself is given back with its log-probabilities."""
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

    A token that begins in what stands before and ends in the text is part of the
    text: where the two meet is for the tokenizer to say.

    Raises:
        ValueError: the server gave no log-probabilities for the prompt.
    """
    given = found["choices"][0].get("logprobs") or {}
    if not given.get("text_offset") or given["text_offset"][0] != 0:
        raise ValueError("gave no log-probabilities of the prompt: it cannot echo")
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
