"""The `agora top` command: a running gateway, watched from a terminal."""

import math
import os
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agora.cli.figures import json_option, write_json
from agora.errors import MissingExtraError

if TYPE_CHECKING:
    from agora.gateway.watching.snapshot import Snapshot

_RUNGS = (("0", "scored", "green"), ("1", "by rule", "yellow"), ("2", "unchanged", "blue"))
_BARS = " ▁▂▃▄▅▆▇█"
_WINDOW_SECONDS = 60.0
_MOST_BYTES = 16 << 20


@click.command()
@click.argument("url", default="http://127.0.0.1:8484")
@click.option(
    "--every",
    "every_seconds",
    type=click.FloatRange(min=0.2, max=60),
    default=2.0,
    show_default=True,
    help="Seconds between updates.",
)
@click.option("--once", is_flag=True, help="Print once and exit.")
@json_option("the totals, once,")
def top(url: str, *, every_seconds: float, once: bool, json_out: str | None) -> None:
    """Watch the gateway at URL: requests, rungs, tokens, dollars and latency.

    Everything shown comes from its /metrics. Rates and times cover the
    last minute; totals cover everything since it started. Press Ctrl-C to
    quit. When piped, it prints once and exits. If the gateway requires tokens,
    set AGORA_TOKEN.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise click.BadParameter(f"{url!r} is not an http or https address", param_hint="URL")
    console = Console()
    once = once or not console.is_terminal
    watch = Watch(url.rstrip("/"))
    try:
        watch.look(fetch(watch.url), time.time())
    except MissingExtraError as error:
        raise click.ClickException(str(MissingExtraError("agora top", "gateway"))) from error
    except (OSError, ValueError) as error:
        raise click.ClickException(
            f"nothing to watch at {watch.url}/metrics ({_why(error)}); is `agora serve` running?"
        ) from error
    if json_out is not None:
        write_json(json_out, watch.totals())
    elif once:
        console.print(watch.picture())
    if once or json_out is not None:
        return
    with Live(watch.picture(), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(every_seconds)
            try:
                watch.look(fetch(watch.url), time.time())
            except (OSError, ValueError) as error:
                watch.lost(_why(error))
            live.update(watch.picture(), refresh=True)


def fetch(url: str) -> "Snapshot":
    """Return what the gateway at `url` counts.

    Raises:
        OSError: it does not answer, or not with its metrics.
        ValueError: what it answers is no metrics.
    """
    # Here and not above, so that help needs no extra.
    from agora.gateway.watching.snapshot import read_metrics

    # No proxy from the environment: a gateway is watched where it runs.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    token = os.environ.get("AGORA_TOKEN", "")
    opener.addheaders = [("x-agora-token", token)] if token else []
    with opener.open(f"{url}/metrics", timeout=5) as answer:
        text = answer.read(_MOST_BYTES).decode("utf-8", "replace")
    snapshot = read_metrics(text)
    if not any(name.startswith("agora_") for name, _ in snapshot.samples):
        raise ValueError("the metrics there are not a gateway's")
    return snapshot


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a gateway: when, and what it counted."""

    at: float
    snapshot: "Snapshot"


class Watch:
    """The looks of the last minute, and the picture they make."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._looks: deque[Look] = deque()
        self._rates: deque[float] = deque(maxlen=40)
        self._lost = ""

    def look(self, snapshot: "Snapshot", at: float) -> None:
        """Take in a look."""
        self._lost = ""
        if self._looks:
            last = self._looks[-1]
            added = snapshot.since(last.snapshot).total("agora_requests_total")
            self._rates.append(added / max(at - last.at, 1e-6))
        self._looks.append(Look(at, snapshot))
        # One look older than the window stays, so that the window is always covered.
        while len(self._looks) > 2 and at - self._looks[1].at >= _WINDOW_SECONDS:
            self._looks.popleft()

    def lost(self, why: str) -> None:
        """Note that the gateway did not answer."""
        self._lost = why

    def picture(self) -> RenderableType:
        """Return what is shown."""
        newest, oldest = self._looks[-1], self._looks[0]
        now = newest.snapshot
        seconds = newest.at - oldest.at
        # After a single look there is no minute yet: what is known is the time since the start.
        recent = now.since(oldest.snapshot) if seconds > 0 else now
        boxes = Table.grid(expand=True, padding=(0, 1))
        for _ in range(3):
            boxes.add_column(ratio=1)
        boxes.add_row(_requests(now, recent, seconds, self._rates), _rungs(now, recent), _bill(now))
        return Group(
            self._head(now, newest.at),
            boxes,
            *_shadow(now),
            _routes(now, recent, seconds),
            "",
            _tenants(now),
            "",
            _models(now),
            "",
            _reasons(now),
        )

    def totals(self) -> dict[str, Any]:
        """Return what the gateway has counted since it started, for a program."""
        now = self._looks[-1].snapshot
        return {
            "url": self.url,
            "at": self._looks[-1].at,
            "version": next(iter(now.by("agora_info", "version")), ""),
            "requests": now.total("agora_requests_total"),
            "requests_by_rung": now.by("agora_requests_total", "rung"),
            "requests_by_reason": now.by("agora_requests_total", "reason"),
            "requests_by_tenant": now.by("agora_requests_total", "tenant"),
            "open": now.total("agora_open_requests"),
            "answers_by_status": now.by("agora_upstream_answers_total", "status"),
            "resent": now.total("agora_resent_total"),
            "tokens_in": now.total("agora_tokens_in_total"),
            "tokens_elided": now.total("agora_tokens_removed_total"),
            "usage_tokens": now.by("agora_usage_tokens_total", "kind"),
            "dollars_gained": now.total("agora_dollars_gained_total"),
            "dollars_lost": now.total("agora_dollars_lost_total"),
            "shadow_tokens_in": now.total("agora_shadow_tokens_in_total"),
            "shadow_tokens_elided": now.total("agora_shadow_tokens_removed_total"),
            "shadow_dollars_gained": now.total("agora_shadow_dollars_gained_total"),
            "shadow_dollars_lost": now.total("agora_shadow_dollars_lost_total"),
            "breakers_open": now.total("agora_breakers_open"),
            "draining": bool(now.total("agora_draining")),
        }

    def _head(self, now: "Snapshot", at: float) -> Text:
        version = next(iter(now.by("agora_info", "version")), "")
        head = Text.assemble(
            (" agora top ", "bold reverse"),
            f" {self.url}",
            (f"  {version}  {time.strftime('%H:%M:%S', time.localtime(at))}  ", "dim"),
        )
        if self._lost:
            head.append(f"no answer: {self._lost}", "bold red")
        elif now.total("agora_draining"):
            head.append("draining", "bold yellow")
        else:
            head.append("serving", "green")
        if now.total("agora_config_stale"):
            head.append("  configuration stale: the new file has mistakes", "bold red")
        if now.total("agora_breakers_open"):
            head.append(f"  breakers open: {now.total('agora_breakers_open'):.0f}", "bold yellow")
        return head


def _requests(
    now: "Snapshot", recent: "Snapshot", seconds: float, rates: Sequence[float]
) -> RenderableType:
    rate = recent.total("agora_requests_total") / seconds if seconds > 0 else None
    answers = now.by("agora_upstream_answers_total", "status")
    failed = sum(n for status, n in answers.items() if status == "none" or status >= "500")
    grid = _facts(
        ("requests", f"{now.total('agora_requests_total'):,.0f}"),
        ("per second", "–" if rate is None else f"{rate:,.1f}"),
        ("open", f"{now.total('agora_open_requests'):,.0f}"),
        ("failed upstream", Text(f"{failed:,.0f}", style="red" if failed else "")),
        ("sent again", f"{now.total('agora_resent_total'):,.0f}"),
        ("memory", f"{count(now.total('process_resident_memory_bytes'))}B"),
    )
    return Panel(Group(grid, Text(spark(rates), style="cyan")), title="requests", padding=(0, 1))


def _rungs(now: "Snapshot", recent: "Snapshot") -> RenderableType:
    counts = now.by("agora_requests_total", "rung")
    whole = sum(counts.values())
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column()
    grid.add_column(ratio=1)
    grid.add_column(justify="right")
    for rung, words, style in _RUNGS:
        share = counts.get(rung, 0.0) / whole if whole else 0.0
        grid.add_row(words, Text("━" * math.ceil(share * 12), style=style), f"{share:.0%}")
    held = recent.quantile("agora_held_seconds", 0.5), recent.quantile("agora_held_seconds", 0.99)
    slowest = max(now.by("agora_slowest_seconds", "route").values(), default=None)
    facts = _facts(
        ("half were held", within(held[0])),
        ("99 of 100", within(held[1])),
        ("slowest", duration(slowest)),
    )
    return Panel(Group(grid, facts), title="rungs", padding=(0, 1))


def _bill(now: "Snapshot") -> RenderableType:
    came = now.total("agora_tokens_in_total")
    removed = now.total("agora_tokens_removed_total")
    usage = now.by("agora_usage_tokens_total", "kind")
    prompt = sum(usage.get(kind, 0.0) for kind in ("fresh", "read", "written"))
    net = now.net_dollars()
    grid = _facts(
        ("net saving", Text(dollars(net), style="bold red" if net < 0 else "bold green")),
        ("  gained", dollars(now.total("agora_dollars_gained_total"))),
        ("  lost by edits", dollars(-now.total("agora_dollars_lost_total"))),
        ("tokens elided", f"{count(removed)} of {count(came)}"),
        ("read from cache", f"{usage.get('read', 0.0) / prompt:.0%}" if prompt else "–"),
        ("tenants at rest", f"{now.total('agora_tenants_resting'):,.0f}"),
    )
    return Panel(grid, title="bill, with the cache", padding=(0, 1))


def _shadow(now: "Snapshot") -> list[RenderableType]:
    """Return what edits would have done, and what came after edits; nothing without either."""
    lines = []
    came = now.total("agora_shadow_tokens_in_total")
    if came:
        removed = now.total("agora_shadow_tokens_removed_total")
        net = now.total("agora_shadow_dollars_gained_total")
        net -= now.total("agora_shadow_dollars_lost_total")
        lines.append(
            f"would save {dollars(net)}, would elide {count(removed)} of {count(came)} tokens "
            f"({removed / came:.0%})"
        )
        steps = now.total("agora_steps_after_edit_total", mode="shadow")
        if steps:
            used = now.total("agora_used_elided_total")
            lines.append(
                f"{used:,.0f} of {steps:,.0f} steps after an edit used what it would have elided "
                f"({used / steps:.1%})"
            )
    shown: list[RenderableType] = [Text.assemble((" shadow  ", "bold magenta"), x) for x in lines]
    steps = now.total("agora_steps_after_edit_total", mode="edit")
    if steps:
        again = now.total("agora_rereads_total", mode="edit")
        said = f"{again:,.0f} of {steps:,.0f} steps after an edit repeat an elided one"
        shown.append(Text.assemble((" re-reads  ", "bold"), f"{said} ({again / steps:.1%})"))
    return shown


def _routes(now: "Snapshot", recent: "Snapshot", seconds: float) -> RenderableType:
    table = _table(
        "route", "requests", "per s", "held 50 %", "99 %", "slowest", "first byte", "4xx", "5xx"
    )
    for route, requests in _most(now.by("agora_requests_total", "route"), 6):
        answers = now.by("agora_upstream_answers_total", "status", route=route)
        refused = sum(n for status, n in answers.items() if status.startswith("4"))
        failed = sum(n for status, n in answers.items() if status == "none" or status >= "500")
        added = recent.total("agora_requests_total", route=route)
        slowest = now.by("agora_slowest_seconds", "route").get(route)
        table.add_row(
            route,
            f"{requests:,.0f}",
            f"{added / seconds:,.1f}" if seconds > 0 else "–",
            within(recent.quantile("agora_held_seconds", 0.5, route=route)),
            within(recent.quantile("agora_held_seconds", 0.99, route=route)),
            duration(slowest),
            within(recent.quantile("agora_first_byte_seconds", 0.5, route=route)),
            Text(f"{refused:,.0f}", style="yellow" if refused else "dim"),
            Text(f"{failed:,.0f}", style="red" if failed else "dim"),
        )
    return table


def _tenants(now: "Snapshot") -> RenderableType:
    table = _table("tenant", "requests", "came", "elided", "share", "from cache", "net saving")
    for tenant, requests in _most(now.by("agora_requests_total", "tenant"), 8):
        came = now.total("agora_tokens_in_total", tenant=tenant)
        removed = now.total("agora_tokens_removed_total", tenant=tenant)
        usage = now.by("agora_usage_tokens_total", "kind", tenant=tenant)
        prompt = sum(usage.get(kind, 0.0) for kind in ("fresh", "read", "written"))
        net = now.net_dollars(tenant=tenant)
        table.add_row(
            tenant,
            f"{requests:,.0f}",
            count(came),
            count(removed),
            f"{removed / came:.0%}" if came else "–",
            f"{usage.get('read', 0.0) / prompt:.0%}" if prompt else "–",
            Text(dollars(net), style="red" if net < 0 else "green"),
        )
    return table


def _models(now: "Snapshot") -> RenderableType:
    table = _table("model", "answers", "came", "elided", "share", "took 50 %", "95 %", "net saving")
    for model, answers in _most(now.by("agora_upstream_answers_total", "model"), 6):
        came = now.total("agora_model_tokens_total", model=model, kind="came")
        removed = now.total("agora_model_tokens_total", model=model, kind="removed")
        net = now.total("agora_model_dollars_gained_total", model=model)
        net -= now.total("agora_model_dollars_lost_total", model=model)
        table.add_row(
            model or "–",
            f"{answers:,.0f}",
            count(came),
            count(removed),
            f"{removed / came:.0%}" if came else "–",
            within(now.quantile("agora_request_seconds", 0.5, model=model)),
            within(now.quantile("agora_request_seconds", 0.95, model=model)),
            Text(dollars(net), style="red" if net < 0 else "green"),
        )
    return table


def _reasons(now: "Snapshot") -> RenderableType:
    parts = [
        f"{reason.replace('_', ' ')} {requests:,.0f}"
        for reason, requests in _most(now.by("agora_requests_total", "reason"), 8)
    ]
    rules = _most(now.by("agora_illegal_inputs_total", "rule"), 3)
    if rules:
        parts.append(f"rules broken: {', '.join(f'{rule} {n:,.0f}' for rule, n in rules)}")
    return Text.assemble((" why  ", "bold"), " · ".join(parts) or "nothing yet", overflow="fold")


def spark(values: Sequence[float]) -> str:
    """Return a line of bars, the highest for the largest value.

    >>> spark([0, 1, 2, 4])
    ' ▂▄█'
    """
    most = max(values, default=0.0)
    if most <= 0:
        return " " * len(values)
    return "".join(_BARS[round(value / most * (len(_BARS) - 1))] for value in values)


def count(number: float) -> str:
    """Return a count in at most four digits and a letter.

    >>> [count(n) for n in (950, 12_345, 3_400_000, 2.5e9)]
    ['950', '12.3k', '3.4M', '2.5G']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number:.0f}"


def duration(seconds: float | None) -> str:
    """Return a time as people read it.

    >>> [duration(s) for s in (None, 0.0005, 0.15, 2.5, float("inf"))]
    ['–', '0.5 ms', '150 ms', '2.5 s', 'over']
    """
    if seconds is None:
        return "–"
    if seconds == float("inf"):
        return "over"
    if seconds < 1:
        ms = seconds * 1000
        return f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"
    return f"{seconds:.1f} s"


def within(bound: float | None) -> str:
    """Return the bound of a histogram's bucket, which is as much as is known.

    >>> within(0.1), within(None)
    ('≤ 100 ms', '–')
    """
    known = bound is not None and bound != float("inf")
    return f"≤ {duration(bound)}" if known else duration(bound)


def dollars(amount: float) -> str:
    """Return an amount with its sign; cents where there are few.

    >>> [dollars(d) for d in (0, 0.0123, 12.5, -3)]
    ['$0', '$0.0123', '$12.50', '-$3.00']
    """
    if abs(amount) < 5e-5:
        return "$0"
    sign = "-" if amount < 0 else ""
    return f"{sign}${abs(amount):,.4f}" if abs(amount) < 1 else f"{sign}${abs(amount):,.2f}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow nothing."""


def _facts(*rows: tuple[str, str | Text]) -> Table:
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(style="dim")
    grid.add_column(justify="right")
    for words, value in rows:
        grid.add_row(words, value)
    return grid


def _table(*columns: str) -> Table:
    table = Table(expand=True, box=None, header_style="bold", padding=(0, 1))
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _most(counts: dict[str, float], most: int) -> list[tuple[str, float]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]


def _why(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"it answers {error.code}"
    reason = getattr(error, "reason", None) or error
    return str(getattr(reason, "strerror", None) or reason)[:120]
