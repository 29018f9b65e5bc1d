"""Calls of the Messages API that together cannot cost more than a cap.

What a call may cost at worst is counted before it is made: every byte of it as a token written to
the cache, and as many tokens of answer as it allows. What the provider says it was takes its place.
Nothing is sent twice, no redirect is followed, and the key is in nothing that comes back.
"""

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agora.adapters.rules.refusals import names_history_rule
from agora.adapters.thoughts import thinks
from agora.core.prices import FAMILIES, UNKNOWN, sheet_for
from agora.core.reading.cutting import printable

Message = dict[str, Any]

_SECONDS = 120
_FRAME_TOKENS = 1_000
"""What a provider adds to a prompt with tools, generously."""
_MOST_BYTES = 4_000_000
_MOST_SAID = 400
_MOST_TOKENS = 10**9
_LOCAL = ("127.0.0.1", "::1", "localhost")
_ACCOUNT = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\borg[-_]\w{8,64}")
_REMEDIES = {
    401: "ANTHROPIC_API_KEY is not a key that it knows",
    402: "the account has to be paid for first",
    403: "this key may not use the model; --model takes another",
    404: "check --model and --base-url",
    429: "wait a minute and ask again",
}


class CannotAskError(Exception):
    """What was given cannot be asked with."""


class StoppedError(Exception):
    """Nothing more can be asked; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whom to ask, with which key, and what it may cost."""

    key: str = field(repr=False)
    model: str
    base_url: str
    max_cents: float


def account_of(key: str, *, model: str, base_url: str, max_cents: float) -> Account:
    """Return the account to ask.

    Raises:
        CannotAskError: the key, the model or the address cannot be used. The key is not in it.
    """
    key = key.strip()
    if not key:
        raise CannotAskError("ANTHROPIC_API_KEY is not set: put the key to ask with there")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise CannotAskError("ANTHROPIC_API_KEY holds characters that no key has: copy it again")
    if sheet_for(model).name in (*FAMILIES, UNKNOWN):
        raise CannotAskError(
            f"no list price of {model} is known, so --max-cents could not be kept: take another "
            "model, or upgrade agora-context"
        )
    try:
        parts = urlsplit(base_url)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        raise CannotAskError(f"{base_url!r} is no address; one is https://HOST") from None
    if parts.scheme != "https" and not (host in _LOCAL and parts.scheme == "http"):
        raise CannotAskError("the address has to begin with https://: a key goes there")
    if not host or "@" in parts.netloc or parts.query or parts.fragment:
        raise CannotAskError("the address has to be a host and perhaps a path: https://HOST")
    plain = base_url.rstrip("/").removesuffix("/v1")
    return Account(key=key, model=model, base_url=plain, max_cents=max_cents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back: 200 with a message, or 400 with the provider's words."""

    status: int
    body: Message
    said: str = ""
    """The words of a refusal."""
    rule: str = ""
    """The rule on message histories that a refusal names."""
    request_id: str = ""
    sent_thinking: bool = False
    """Whether there was thinking in what was sent."""

    @property
    def usage(self) -> Mapping[str, int]:
        """The tokens it was billed for; empty if it does not say."""
        found = self.body.get("usage")
        tokens = found if isinstance(found, dict) else {}
        counted = {
            name: min(max(0, number), _MOST_TOKENS)
            for name, number in tokens.items()
            if isinstance(number, int)
        }
        return counted if {"input_tokens", "output_tokens"} <= counted.keys() else {}

    @property
    def blocks(self) -> list[Message]:
        """The content blocks of its message."""
        content = self.body.get("content")
        return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []

    @property
    def is_whole(self) -> bool:
        """Whether its message ended by itself and says something, so that it can be sent again."""
        ended = self.body.get("stop_reason") in ("end_turn", "tool_use")
        return ended and any(block.get("type") in ("text", "tool_use") for block in self.blocks)

    @property
    def transformations(self) -> tuple[Mapping[str, str], ...] | None:
        """What the provider reports to have become of thinking; None if it does not report."""
        found = self.body.get("input_transformations")
        if not isinstance(found, list):
            return None
        return tuple(
            {name: _plain(str(one.get(name)))[:80] for name in ("type", "path", "reason")}
            for one in found
            if isinstance(one, dict)
        )


class Capped:
    """Sends requests to an account until the next one could pass the cap."""

    def __init__(self, account: Account, betas: str = "") -> None:
        self.account = account
        self.calls = 0
        self.cents = 0.0
        self.request_ids: list[str] = []
        self._betas = betas
        self._sheet = sheet_for(account.model)
        self._opener = urllib.request.build_opener(_NoRedirect())
        self._said_tokens = 0

    def send(self, body: Message) -> Answer:
        """Return the provider's answer to a request, the model put in.

        Raises:
            StoppedError: the call could pass the cap, or there was no answer that says anything.
        """
        data = json.dumps({"model": self.account.model, **body}).encode()
        worst = self._count_worst(data, body["max_tokens"])
        status, raw, request_id = self._post(data)
        answer = self._read(status, raw, request_id, any(map(thinks, body["messages"])))
        self.request_ids.append(answer.request_id)
        if usage := answer.usage:
            self.cents += self._billed(usage) - worst
            self._said_tokens += usage["output_tokens"]
        return answer

    def _count_worst(self, data: bytes, max_tokens: int) -> float:
        """Count what a call may cost, and return it."""
        # No tokenizer makes more tokens than there are bytes. Thinking may come back as less than
        # was thought and be billed in full, so all that was said so far is added.
        prompt = len(data) + _FRAME_TOKENS + self._said_tokens
        worst = 100 * self._sheet.dollars(written=prompt, output=max_tokens)
        if not self.cents + worst <= self.account.max_cents:
            raise StoppedError(
                f"the next call may cost {worst:.2f} cents at worst, and {self.cents:.2f} of "
                f"{self.account.max_cents:g} are spent; --max-cents raises the cap"
            )
        self.calls += 1
        self.cents += worst
        return worst

    def _billed(self, usage: Mapping[str, int]) -> float:
        return 100 * self._sheet.dollars(
            uncached=usage["input_tokens"],
            written=usage.get("cache_creation_input_tokens", 0),
            read=usage.get("cache_read_input_tokens", 0),
            output=usage["output_tokens"],
        )

    def _post(self, data: bytes) -> tuple[int, bytes, str]:
        """Return status, body and request id of any answer."""
        headers = {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            "x-api-key": self.account.key,
        }
        if self._betas:
            headers["anthropic-beta"] = self._betas
        url = f"{self.account.base_url}/v1/messages"
        request = urllib.request.Request(url, data, headers)  # noqa: S310 - https, or loopback
        try:
            try:
                answer = self._opener.open(request, timeout=_SECONDS)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                found = answer.headers.get("request-id") or answer.headers.get("x-request-id")
                return answer.status, answer.read(_MOST_BYTES), self._clean(found or "")[:80]
        except (OSError, http.client.HTTPException) as error:
            why = self._clean(getattr(error, "reason", None) or error)
            raise StoppedError(f"no answer from {self.account.base_url}: {why}") from None

    def _read(self, status: int, raw: bytes, request_id: str, sent_thinking: bool) -> Answer:
        """Return an answer that is a 200 or a 400; any other ends the asking."""
        raw = raw.replace(self.account.key.encode(), b"[key]")
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        said = self._clean(_ACCOUNT.sub("[id]", _words(body)))
        if status not in (200, 400) or not isinstance(body, dict):
            remedy = _REMEDIES.get(status, "check --base-url, or try again later")
            told = "; ".join(filter(None, (said, request_id and f"request {request_id}")))
            more = f" ({told})" if told else ""
            raise StoppedError(f"the provider answers {status}{more}: {remedy}")
        return Answer(
            status=status,
            body=body,
            said=said if status == 400 else "",
            rule=names_history_rule(raw) if status == 400 else "",
            request_id=request_id,
            sent_thinking=sent_thinking,
        )

    def _clean(self, text: object) -> str:
        return _plain(str(text).replace(self.account.key, "[key]"))[:_MOST_SAID]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a redirect would take the key to another address."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Return no request to go on with."""


def _words(body: object) -> str:
    """Return the message of an error."""
    error = body.get("error") if isinstance(body, dict) else None
    said = error.get("message") if isinstance(error, dict) else None
    return said if isinstance(said, str) else ""


def _plain(text: str) -> str:
    """Return a text as it may be shown in a terminal."""
    return printable(text[: 4 * _MOST_SAID])
