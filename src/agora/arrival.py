"""What is left out of a result as soon as it arrives, before anything is chosen.

It depends on the result alone, so it is the same at every later call: nothing that a provider
has cached changes, and no thinking is invalidated.
"""

from collections.abc import Collection
from dataclasses import replace

from agora.adapters import Parsed, parse
from agora.adapters.results import rewritten
from agora.core.compression import Arrived, Compression, Reason
from agora.core.reading.noise import NoiseKind, without_noise
from agora.core.request import Request
from agora.core.tokens import TokenCounter


def arrive(
    request: Request,
    parsed: Parsed,
    noise: tuple[NoiseKind, ...],
    *,
    kept: Collection[int],
    counter: TokenCounter,
) -> tuple[Request, Parsed, Arrived]:
    """Return the request and its trajectory without the noise in results, and how much it was.

    Results of the steps in `kept` stay as they are.
    """
    changed = 0

    def clean(text: str) -> str:
        nonlocal changed
        cleaned = without_noise(text, noise)
        changed += cleaned is not text
        return cleaned

    messages = rewritten(parsed, clean, kept=frozenset(kept))
    if not changed:
        return request, parsed, Arrived()
    original, request = request, replace(request, messages=messages)
    again = parse(request, counter)
    if again.owners != parsed.owners:
        # What an agent by text observed is known by its frame, which the noise was part of.
        return original, parsed, Arrived()
    saved = parsed.trajectory.tokens - again.trajectory.tokens
    return request, again, Arrived(changed, saved)


def with_arrived(compression: Compression, arrived: Arrived) -> Compression:
    """Return the account of a compression with what was left out at arrival."""
    if not arrived.results:
        return compression
    before = compression.tokens_before + arrived.tokens
    return replace(compression, arrived=arrived, tokens_before=before)


def told(compression: Compression) -> Compression:
    """Say of messages from which only noise was taken that they are not the caller's own."""
    if not compression.arrived.results or compression.changed:
        return compression
    if compression.reason is Reason.SHADOW:
        return compression
    why = f": {compression.detail}" if compression.detail else ""
    text = isinstance(compression.messages, str)
    return replace(
        compression,
        reason=Reason.NOISE_REMOVED,
        detail=f"{compression.reason}{why}",
        positions=() if text else tuple(range(len(compression.messages))),
    )
