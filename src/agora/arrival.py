"""What is left out of results as soon as they arrive: noise, and what the prompt shows already.

Noise depends on the result alone, a repeat on what is sent before it. So both are the same at every
later call: nothing that a provider has cached changes, and no thinking is invalidated. At an edit
repeats are looked for anew in what stays, so a reference never points at what is gone.
"""

from collections.abc import Collection
from dataclasses import replace

from agora.adapters import Parsed, parse
from agora.adapters.results import rewritten
from agora.core.compression import Arrived, Compression, Reason, Rung
from agora.core.reading.noise import NoiseKind, without_noise
from agora.core.reading.repeats import Shown, referring
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

    def clean(number: int, text: str) -> str:
        nonlocal changed
        cleaned = text if number in kept else without_noise(text, noise)
        changed += cleaned is not text
        return cleaned

    messages = rewritten(parsed, clean)
    if not changed:
        return request, parsed, Arrived()
    cleaner = replace(request, messages=messages)
    again = parse(cleaner, counter)
    return cleaner, again, Arrived(changed, parsed.trajectory.tokens - again.trajectory.tokens)


def refer(
    compression: Compression, *, kept: Collection[int], code: str, counter: TokenCounter
) -> Compression:
    """Return a compression in which what a result repeats of those before it is a reference.

    Results of the steps in `kept` stay as they are. A prompt that is one text is left alone.
    """
    trajectory = compression.trajectory
    if trajectory is None or isinstance(compression.messages, str):
        return compression
    positions = compression.positions or range(len(compression.messages))
    owners = [compression.owners[position] for position in positions]
    shown = Shown()
    write = referring(shown, code)
    results = tokens = 0

    def shorten(number: int, text: str) -> str:
        nonlocal results, tokens
        if number in kept:
            shown.add(text.split("\n"))
            return text
        written = write(text)
        if written is not text:
            results += 1
            tokens += counter.count(text) - counter.count(written)
        return written

    messages = rewritten(Parsed(compression.messages, trajectory, owners), shorten)
    if not results:
        return compression
    before = compression.arrived
    return replace(
        compression,
        messages=messages,
        tokens_after=compression.tokens_after - tokens,
        arrived=Arrived(before.results + results, before.tokens + tokens),
    )


def with_arrived(compression: Compression, arrived: Arrived) -> Compression:
    """Return the account of a compression with what was left out at arrival."""
    if not arrived.results:
        return compression
    before = compression.tokens_before + arrived.tokens
    return replace(compression, arrived=arrived, tokens_before=before)


def told(compression: Compression) -> Compression:
    """Say of messages that were only shortened at arrival that they are not the caller's own."""
    if not compression.arrived.results or compression.changed:
        return compression
    if compression.reason is Reason.SHADOW:
        return compression
    why = f": {compression.detail}" if compression.detail else ""
    text = isinstance(compression.messages, str)
    return replace(
        compression,
        reason=Reason.SHORTENED_AT_ARRIVAL,
        rung=Rung.SCORED,
        detail=f"{compression.reason}{why}",
        positions=() if text else tuple(range(len(compression.messages))),
    )
