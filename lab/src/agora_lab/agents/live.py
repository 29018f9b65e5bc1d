"""A language model of a real provider, with a cap in dollars.

History goes as plain text, calls of tools as lines: so any model of any OpenAI- or Anthropic-shaped
endpoint plays alike, with AGORA and with everything.
"""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from agora.core.prices import PriceSheet
from agora_lab.agents.base import Answer, Messages, message_text
from agora_lab.agents.purse import Purse, prices_of, worst_case
from agora_lab.agents.retries import BackboneError

Shape = Literal["openai", "anthropic"]
CAP, PURSE = "cap", "purse.jsonl"
"""The files of a run with its cap and with what is counted."""
_MOST_BYTES = 8 << 20
_TRIES = 3
_AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


class LiveModel:
    """A model behind an endpoint. Every try is counted in the purse before it is sent."""

    def __init__(
        self,
        url: str,
        model: str,
        purse: Purse,
        sheet: PriceSheet,
        *,
        shape: Shape = "openai",
        key: str = "",
        max_tokens: int = 512,
        timeout_s: float = 120.0,
        pause_s: float = 2.0,
    ) -> None:
        self._url = (
            f"{url.rstrip('/')}/{'messages' if shape == 'anthropic' else 'chat/completions'}"
        )
        self._model, self._purse, self._sheet = model, purse, sheet
        self._shape, self._max_tokens = shape, max_tokens
        self._timeout_s, self._pause_s = timeout_s, pause_s
        self._headers = {"content-type": "application/json"}
        if key and shape == "anthropic":
            self._headers["x-api-key"] = key
        elif key:
            self._headers["authorization"] = f"Bearer {key}"
        if shape == "anthropic":
            self._headers["anthropic-version"] = "2023-06-01"

    def answer(self, messages: Messages) -> Answer:
        """Return the answer to these messages.

        Raises:
            CapReachedError: asking might pass the cap; nothing was sent.
            BackboneError: there was no answer.
        """
        body = json.dumps(self._request(messages)).encode()
        worst = worst_case(self._sheet, body, self._max_tokens)
        problem = ""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(self._pause_s * attempt)
            self._purse.spend(worst)
            try:
                found = self._ask(body)
                answer = self._read(found)
            except urllib.error.HTTPError as error:
                problem = f"answered {error.code}: {error.read(300).decode('utf-8', 'replace')}"
                if error.code not in _AGAIN:
                    break
            except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
                problem = f"gave no answer: {type(error).__name__}: {error}"
            else:
                self._purse.report(worst, self._dollars(answer))
                return answer
        raise BackboneError(self._url, problem)

    def _request(self, messages: Messages) -> dict[str, Any]:
        told = [_plain(message) for message in messages]
        request: dict[str, Any] = {"model": self._model}
        if self._shape == "anthropic":
            system = [each["content"] for each in told if each["role"] == "system"]
            rest = [each for each in told if each["role"] != "system"]
            return request | {
                "system": "\n\n".join(system),
                "messages": rest,
                "max_tokens": self._max_tokens,
            }
        return request | {"messages": told, "max_completion_tokens": self._max_tokens}

    def _ask(self, body: bytes) -> Any:
        until = time.monotonic() + self._timeout_s
        asked = urllib.request.Request(self._url, body, self._headers)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=self._timeout_s) as answer:  # noqa: S310
            came = bytearray()
            # The timeout is for each read: a server that dribbles could go on forever.
            while piece := answer.read1(1 << 16):
                came += piece
                if time.monotonic() > until or len(came) > _MOST_BYTES:
                    raise TimeoutError("the answer did not end")
        return json.loads(bytes(came))

    def _read(self, found: Any) -> Answer:
        usage = found.get("usage") or {}
        if self._shape == "anthropic":
            cached = int(usage.get("cache_read_input_tokens") or 0)
            written = int(usage.get("cache_creation_input_tokens") or 0)
            return Answer(
                text="".join(str(part.get("text", "")) for part in found["content"]),
                input_tokens=int(usage.get("input_tokens") or 0) + cached + written,
                output_tokens=int(usage.get("output_tokens") or 0),
                cached_tokens=cached,
                finish=str(found.get("stop_reason") or ""),
            )
        details = usage.get("prompt_tokens_details") or {}
        choice = found["choices"][0]
        return Answer(
            text=str(choice["message"].get("content") or ""),
            input_tokens=int(usage.get("prompt_tokens") or 0),
            output_tokens=int(usage.get("completion_tokens") or 0),
            cached_tokens=int(details.get("cached_tokens") or 0),
            finish=str(choice.get("finish_reason") or ""),
        )

    def _dollars(self, answer: Answer) -> float:
        return billed(self._sheet, answer.input_tokens, answer.cached_tokens, answer.output_tokens)


def billed(sheet: PriceSheet, prompt: int, cached: int, output: int) -> float:
    """Return what a call cost by what the provider counted."""
    cached = max(0, min(cached, prompt))
    return sheet.dollars(uncached=max(0, prompt - cached), read=cached, output=max(0, output))


def live_model(
    url: str,
    model: str,
    shape: Shape,
    key_env: str,
    max_tokens: int,
    folder: str,
    dollars_per_million: tuple[float, float] | None = None,
) -> LiveModel:
    """Return a model as a grid names it; its key comes from the environment.

    The cap stands in a file of the run's folder and not in the run's settings, so that a run may go
    on under a higher one.
    """
    sheet = prices_of(model, dollars_per_million)
    most = float(Path(folder, CAP).read_text(encoding="utf-8"))
    purse = Purse(Path(folder, PURSE), most)
    key = os.environ.get(key_env, "")
    return LiveModel(url, model, purse, sheet, shape=shape, key=key, max_tokens=max_tokens)


def _plain(message: Mapping[str, Any]) -> dict[str, str]:
    role = str(message["role"])
    return {"role": "user" if role == "tool" else role, "content": message_text(message)}
