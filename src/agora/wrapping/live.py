"""One made-up conversation with the user's own provider, in four calls, for `agora doctor --live`.

Whole, continued, shortened, and the shortened one continued: does the provider accept an edit, and
does it cache the prompts as the price sheet describes?
"""

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agora import Budget, Compressor
from agora.core.prefix_cache import PrefixCache, Segment
from agora.core.prices import PriceSheet, sheet_for
from agora.core.tokens import EstimatedTokens
from agora.formats import format_named
from agora.formats.usage import Usage, read_usage
from agora.savings import call_dollars
from agora.wrapping.doctor import Finding, conversation

_STEPS = 12
_WHOLE, _KEPT = 2.4, 0.6
"""The size of the prompt before and after an edit, in multiples of the smallest cached prefix."""
_LEAST_TOKENS = 1_024
_LEAST_READ = 0.8
"""Below this share of the predicted read, the cache does not match its price sheet."""
_ANSWER_TOKENS = 256
Json = dict[str, Any]


class Provider(NamedTuple):
    """A provider and its cheap model; the user's variables begin with the provider's name."""

    name: str
    models: str
    """Prefixes of its models' names; empty for any."""
    model: str
    url: str


_GOOGLE = "https://generativelanguage.googleapis.com/v1beta/openai"
PROVIDERS = (
    Provider("ANTHROPIC", "claude", "claude-haiku-5-5", "https://api.anthropic.com"),
    Provider("GEMINI", "gemini", "gemini-3.8-flash", _GOOGLE),
    Provider("OPENAI", "", "gpt-5-mini", "https://api.openai.com/v1"),
)


def ask(
    environment: Mapping[str, str], model: str | None, max_cents: float, *, pause: float = 2.0
) -> Iterator[Finding]:
    """Make the calls and yield a finding for each, `pause` seconds apart for the cache."""
    model = model or next((p.model for p in PROVIDERS if environment.get(f"{p.name}_API_KEY")), "")
    provider = next(p for p in PROVIDERS if model.startswith(p.models))
    if not environment.get(f"{provider.name}_API_KEY"):
        names = [f"{p.name}_API_KEY" for p in ((provider,) if model else PROVIDERS)]
        yield Finding("live", "problem", "there is no key", f"set {' or '.join(names)}")
        return
    sheet, anthropic = sheet_for(model), provider.models == "claude"
    messages = _conversation(sheet, anthropic=anthropic)
    budget = Budget(keep_ratio=_KEPT)
    compressor = Compressor(edits="every_call", min_tokens=0, budget=budget, sheet=sheet)
    edited = compressor.compress(messages[:-2], model=model).messages
    prompts = {
        "whole": messages[:-4],
        "continued": messages[:-2],
        "shortened": edited,
        "shortened, continued": [*edited, *messages[-2:]],
    }
    tokens = sum(segment.tokens for one in prompts.values() for segment in _segments(one, False))
    most = 1.5 * tokens * sheet.input * sheet.write + 4 * _ANSWER_TOKENS * sheet.output
    if most / 1e4 > max_cents:
        words = f"four calls to {model} may cost {most / 1e4:.1f} cents"
        yield Finding("live", "problem", words, "allow it with --max-cents, or name a --model")
        return
    cache, dollars = PrefixCache(sheet), 0.0
    for name, prompt in prompts.items():
        predicted = cache.send(_segments(prompt, anthropic))
        status, answer = _send(provider, environment, _body(prompt, model, anthropic))
        if status != 200:
            words = f"refused with {status}: {str(answer.get('error', answer))[:200]}"
            remedy = "check key, address and model; if the first call was accepted, report this"
            yield Finding(name, "problem", words, remedy)
            return
        usage = read_usage(answer.get("usage")) or Usage()
        dollars += call_dollars(sheet, usage)
        expected = int(usage.prompt * predicted.read / predicted.tokens)
        words = f"accepted; {usage.prompt:,} tokens, {usage.read:,} cached, {expected:,} expected"
        remedy = "try again: caches may miss; if they always do, edits cost more than AGORA expects"
        is_cached = usage.read >= _LEAST_READ * expected
        yield Finding(name, "ok", words) if is_cached else Finding(name, "problem", words, remedy)
        time.sleep(pause)
    yield Finding("cost", "ok", f"{100 * dollars:.2f} cents at {sheet.name} prices")


def _conversation(sheet: PriceSheet, *, anthropic: bool) -> list[Json]:
    """Return a conversation that no cache has seen, with steps of equal size."""
    tokens = _WHOLE * max(_LEAST_TOKENS, sheet.minimum_prefix)
    nonce = secrets.token_hex(8)
    format = "anthropic" if anthropic else "openai"
    messages = conversation(_STEPS + 2, int(tokens / _STEPS / 9), nonce, format)["messages"]
    return list(messages)


def _segments(messages: list[Json], marked: bool) -> list[Segment]:
    count = EstimatedTokens().count
    texts = list(map(json.dumps, messages))
    return [Segment(t, count(t), marked and n == len(texts)) for n, t in enumerate(texts, 1)]


def _body(messages: list[Json], model: str, anthropic: bool) -> Json:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    format = format_named("anthropic" if anthropic else "openai")
    return {
        "model": model,
        "messages": [*messages[:-1], format.mark_for_cache(messages[-1])],
        "tools": [format.tool("read", "Read a file.", schema)],
        "max_tokens" if anthropic else "max_completion_tokens": _ANSWER_TOKENS,
    }


def _send(provider: Provider, environment: Mapping[str, str], body: Json) -> tuple[int, Json]:
    """Return the status and the JSON of an answer."""
    key = environment[f"{provider.name}_API_KEY"]
    url = (environment.get(f"{provider.name}_BASE_URL") or provider.url).rstrip("/")
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    if provider.models == "claude":
        headers |= {"x-api-key": key, "anthropic-version": "2023-06-01"}
        del headers["authorization"]
    url += "/v1/messages" if provider.models == "claude" else "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
            return int(answer.status), json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        return error.code, {"error": text.replace(key, "(key)")}
    except (OSError, ValueError) as error:
        return 0, {"error": f"{url}: {error}"}
