"""The account of one process: calls, dollars spent and saved, and reasons for unedited prompts.

The closing line of `agora wrap` reads it from a JSON file, which outlives the process.
"""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agora.service.call import Call, Edited, Outcome

_log = logging.getLogger("agora.calls")


@dataclass(slots=True)
class Account:
    """Sums over the calls that a model answered."""

    calls: int = 0
    edited: int = 0
    """Calls that were sent shortened."""
    resent: int = 0
    dollars: float = 0.0
    """By the usage that providers reported."""
    saved: float = 0.0
    """Estimated; in shadow mode, the dollars that edits would have saved."""
    billed: int = 0
    """Calls with reported usage."""
    prompt_tokens: int = 0
    """By providers' count."""
    cached_tokens: int = 0
    output_tokens: int = 0
    thinking_blocks: int = 0
    asked_again: int = 0
    """Calls of the agent that it repeated after they were shortened."""
    expected_again: float = 0.0
    """How many of them it would have repeated anyway."""
    models: dict[str, float] = field(default_factory=dict)
    """Dollars by model."""
    unchanged: dict[str, int] = field(default_factory=dict)
    """Unedited calls by reason."""
    errors: dict[str, int] = field(default_factory=dict)
    last_error: str = ""
    """The last sentence that explains one of them."""
    quota: dict[str, float] = field(default_factory=dict)
    """The share of a subscription's quota that was used up meanwhile, by window (`5h`, `7d`)."""
    quota_seen: dict[str, float] = field(default_factory=dict)
    """The shares in the last answer."""

    def record(self, call: Call, edited: Edited, outcome: Outcome, model: str) -> None:
        """Add a finished call; `model` is the name of its price sheet."""
        if not call.route.answers:
            return
        self.calls += 1
        self.resent += edited.retried
        if edited.changed:
            self.edited += 1
            self.thinking_blocks += edited.thinking_blocks
        else:
            self.unchanged[edited.reason] = self.unchanged.get(edited.reason, 0) + 1
        again, expected = edited.repeats_of(outcome)
        self.asked_again += again
        self.expected_again += expected
        if outcome.error:
            self.errors[outcome.error] = self.errors.get(outcome.error, 0) + 1
            self.last_error = outcome.detail or self.last_error
        if outcome.usage is not None and outcome.dollars is not None:
            self.billed += 1
            self.dollars += outcome.dollars
            self.saved += outcome.saved
            self.models[model] = self.models.get(model, 0.0) + outcome.dollars
            self.prompt_tokens += outcome.usage.prompt
            self.cached_tokens += outcome.usage.read
            self.output_tokens += outcome.usage.output

    def see_quota(self, headers: Mapping[str, str]) -> None:
        """Add an answer's report on a subscription's quota, which others may use too.

        If a window began anew, counting continues from there.
        """
        for window in ("5h", "7d"):
            with suppress(ValueError):
                share = float(headers.get(f"anthropic-ratelimit-unified-{window}-utilization", ""))
                used = max(0.0, share - self.quota_seen.get(window, share))
                self.quota[window] = self.quota.get(window, 0.0) + used
                self.quota_seen[window] = share

    def save(self, path: Path) -> None:
        """Write the account to a file, all of it or nothing."""
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        os.replace(part, path)

    @classmethod
    def load(cls, path: Path) -> "Account":
        """Return the account in a file, or an empty one if it cannot be read."""
        with suppress(OSError, ValueError, TypeError):
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        return cls()


def log_call(
    call: Call, edited: Edited, outcome: Outcome, model: str, *, experiment: str = ""
) -> None:
    """Write one line of JSON about a finished call, without its text or its key."""
    if not _log.isEnabledFor(logging.INFO):
        return
    usage = asdict(outcome.usage) if outcome.usage is not None else {}
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "route": call.route.name,
        "model": model,
        "owner": call.owner,
        "conversation": call.conversation,
        "experiment": experiment if call.arm else None,
        "arm": call.arm and str(call.arm),
        "reason": edited.reason,
        "edited": edited.changed,
        "resent": edited.retried,
        "status": outcome.status,
        "error": outcome.error,
        "tokens_before": edited.tokens_before,
        "tokens_after": edited.tokens_after,
        "thinking_blocks": edited.thinking_blocks,
        "extra_calls": round(edited.repeats_of(outcome).extra, 3),
        **{name: usage.get(name) for name in ("uncached", "read", "written", "output")},
        "dollars": outcome.dollars,
        "saved": outcome.saved,
        "held_ms": round(1e3 * outcome.held_seconds, 1),
        "first_byte_ms": round(1e3 * outcome.first_byte_seconds, 1),
    }
    _log.info("%s", json.dumps({name: value for name, value in line.items() if value is not None}))
