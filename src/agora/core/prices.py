"""Price sheets: the provider's prices for a prompt, and the rules of its cache."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

from agora.core.model_names import bare_name, belongs
from agora.errors import PriceSheetError

UNKNOWN = "unknown"
"""The sheet of a model without one. When in doubt, editing is assumed to be expensive."""
FAMILIES = ("claude", "gpt", "gemini", "deepseek", "mistral")
"""Sheets of whole families: a version without its own sheet is priced by its family's."""


@dataclass(frozen=True, slots=True)
class Tier:
    """The prices of a request with a prompt larger than `above`, for all of its tokens.

    Both are factors to the sheet's own prices. Reads and writes are ratios to the input's price
    and rise with it.
    """

    above: int
    input: float
    output: float


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A time to live that a request may ask for instead of the usual one, and its write price."""

    ttl: str
    """As requests spell it: `1h`."""
    seconds: float
    write: float
    """As a ratio to `input`."""


_FLAT = Tier(0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSheet:
    """The prices of one family of models, and the rules of its prefix cache.

    >>> sheet = PriceSheet(name="mine", input=4.0, read=0.25, write=1.0, output=15.0)
    >>> sheet.dollars(read=1_000_000)
    1.0
    """

    name: str
    """The family. `sheet_for` finds a model by the longest family its name begins with."""
    input: float
    """Dollars per million tokens that are neither read from nor written to a cache."""
    read: float
    """Price of a token read from the cache, as a ratio to `input`."""
    write: float
    """Price of a token written to the cache, as a ratio to `input`; 1 if that costs no more."""
    output: float
    """Dollars per million tokens."""
    minimum_prefix: int = 0
    """Tokens below which a prefix is neither written nor read."""
    block: int = 1
    """Tokens by which a match grows; 0 if only a prefix that ended a request can match."""
    ttl_seconds: float = 300
    """Idle time after which the cache is assumed to be gone; 0 if there is no cache."""
    ttl_assumed: bool = False
    """True if the provider states no such time: then a silence proves nothing."""
    breakpoints: int = 0
    """How many places of a prompt the caller may mark; 0 if the provider caches automatically."""
    lookback: int = 0
    """How many content blocks are searched back from a breakpoint, itself included; 0 for all."""
    common_prefix: bool = False
    """True if, with `block` 0, a prefix is stored once two requests have shared it."""
    hit: float = 1.0
    """The measured share of the cached tokens that a call really reads. A best-effort cache misses
    the rest, which is then billed as a write. 1 if it has not been measured."""
    window: int | None = None
    """Tokens a prompt may have."""
    tiers: tuple[Tier, ...] = ()
    """Prices that rise with the size of the prompt, smallest first."""
    lifetimes: tuple[Lifetime, ...] = ()
    """Other lifetimes that a request may ask for, with their write prices."""
    prefill_seconds_per_million: float | None = None
    """For your own hardware: how long a million uncached prompt tokens take."""
    source: str = ""
    date: str = ""
    """When the figures were last held against their source."""
    note: str = ""
    """Disagreeing sources, assumptions, and the date at which the model was retired."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "minimum_prefix", "block", "ttl_seconds", "lookback"):
            if not 0 <= getattr(self, name) < math.inf:
                raise PriceSheetError(
                    self.name, f"has {name} {getattr(self, name)!r}; it must be 0 or more"
                )
        if not 0 <= self.read <= 1:
            raise PriceSheetError(
                self.name, f"has read {self.read!r}; it must be a ratio to input, from 0 to 1"
            )
        if not 0 < self.hit <= 1:
            raise PriceSheetError(
                self.name, f"has hit {self.hit!r}; it must be a share above 0 and at most 1"
            )
        if not 1 <= self.write < math.inf:
            raise PriceSheetError(
                self.name, f"has write {self.write!r}; it must be a ratio to input, 1 or more"
            )
        for life in self.lifetimes:
            if not (life.ttl and 0 < life.seconds < math.inf and 1 <= life.write < math.inf):
                raise PriceSheetError(
                    self.name,
                    f"has {life}; it needs a ttl, seconds above 0 and a write of 1 or more",
                )
        for before, tier in pairwise((_FLAT, *self.tiers)):
            rises = (
                before.input <= tier.input < math.inf and before.output <= tier.output < math.inf
            )
            if not (before.above < tier.above and rises):
                raise PriceSheetError(
                    self.name, f"has {tier} after {before}; sizes and factors must rise"
                )

    @property
    def caches(self) -> bool:
        """True if the cache changes the cost of a prompt."""
        return self.read < 1 or self.write > 1

    @property
    def expected_read(self) -> float:
        """Price of a token that should be cached: read if the cache hits, written again otherwise.

        >>> PriceSheet(name="x", input=1, read=0.1, write=1.1, output=5, hit=0.9).expected_read
        0.2
        """
        return self.hit * self.read + (1 - self.hit) * self.write

    def no_cache(self) -> "PriceSheet":
        """Return the same prices without the cache: every token at `input`.

        With it the schedule edits at every call, as the paper does. It also
        suits a caller whose prompts stay below the minimum.
        """
        return replace(
            self,
            read=1.0,
            write=1.0,
            minimum_prefix=0,
            block=1,
            ttl_seconds=0,
            breakpoints=0,
            lookback=0,
            common_prefix=False,
            hit=1.0,
            lifetimes=(),
        )

    def tier(self, prompt: float) -> Tier:
        """Return the tier of a prompt by its tokens; factors of 1 below the first tier.

        >>> sheet_for("claude-haiku-5-5").tier(100_001).input
        5.0
        """
        found = _FLAT
        for tier in self.tiers:
            if prompt <= tier.above:
                break
            found = tier
        return found

    @property
    def cliff(self) -> int | None:
        """The largest prompt at the sheet's own prices; one token more and all of it costs more."""
        return self.tiers[0].above if self.tiers else None

    def for_ttl(self, ttl: str | None) -> "PriceSheet":
        """Return the sheet of requests that ask for a time to live, as they spell it.

        None, the usual one and one that is not listed leave prices as they are. The returned sheet
        has no other lifetimes, so that a second call changes nothing.

        >>> sheet = sheet_for("claude-opus-5").for_ttl("1h")
        >>> sheet.write, sheet.ttl_seconds, sheet.for_ttl("5m") == sheet
        (2.0, 3600.0, True)
        """
        if not self.lifetimes:
            return self
        for life in self.lifetimes:
            if life.ttl == ttl:
                return replace(self, write=life.write, ttl_seconds=life.seconds, lifetimes=())
        return replace(self, lifetimes=())

    def as_billed(
        self, written: float, written_1h: float | None = None, ttl: str | None = None
    ) -> "PriceSheet":
        """Return the sheet of one call, by the tokens that the provider wrote, and for how long.

        `written_1h` is the part of `written` that is kept for an hour. Without the
        provider's word it follows the request's `ttl`. With both kinds in one call `write` is
        their mean price.

        >>> sheet_for("claude-opus-5").as_billed(1_000, 400).write
        1.55
        """
        if written_1h is None or written <= 0:
            return self.for_ttl(ttl)
        usual, hour = self.for_ttl(None), self.for_ttl("1h")
        share = min(1.0, written_1h / written)
        if not share or hour == usual:
            return usual
        return replace(hour, write=usual.write + share * (hour.write - usual.write))

    def dollars(
        self, *, uncached: float = 0, read: float = 0, written: float = 0, output: float = 0
    ) -> float:
        """Return the dollars of one call from its tokens by class of billing.

        Only for one call: the sum of several would count as one large prompt of a higher tier.
        """
        tier = self.tier(uncached + read + written)
        tokens = uncached + read * self.read + written * self.write
        spent = tokens * self.input * tier.input + output * self.output * tier.output
        return spent / 1_000_000


def sheet_for(model: str, sheets: Mapping[str, PriceSheet] | None = None) -> PriceSheet:
    """Return the sheet of the longest family that `model` begins with.

    Whatever gateways put around a name is removed first. `sheets` are searched
    before the shipped ones. A version without a sheet is not mistaken for its
    neighbour: it gets its family's sheet (one of `FAMILIES`; say so where you
    show prices), and a name of no family gets "unknown", reads at 0.1 and writes at 1.25.

    A path says where a model is served: `azure/`, `vertex_ai/` and `openrouter/` have rules of
    their own where a sheet of that platform is listed or its routing is known. Everywhere else,
    and without a path, the prices are those of the model's own provider: a reseller's may differ.

    >>> sheet_for("bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0").name
    'claude-opus-4-5'
    >>> sheet_for("openai/gpt-4o-2024-08-06").read
    0.5
    >>> sheet_for("gemini-9-pro-preview").name, sheet_for("somebody/something-new").name
    ('gemini', 'unknown')
    >>> sheet_for("deepseek-v3.2").caches, sheet_for("azure_ai/deepseek-v3.2").caches
    (True, False)
    """
    name, platform = bare_name(model), _PLATFORMS.get(model.lower().partition("/")[0], "")
    return _routed(_found(name, platform, sheets or {}), platform)


def _found(name: str, platform: str, sheets: Mapping[str, PriceSheet]) -> PriceSheet:
    """Return the sheet of a bare name: the caller's before ours, the platform's before any."""
    places = (f"{platform}/{name}", name) if platform else (name,)
    for known in sheets, shipped_sheets():
        for place in places:
            found = [one for one in known if belongs(place, one.lower().replace(".", "-"))]
            if found:
                return known[max(found, key=len)]
    family = next((one for one in FAMILIES if name.startswith(f"{one}-")), UNKNOWN)
    return shipped_sheets()[family]


_PLATFORMS = {
    "azure": "azure",
    "azure_ai": "azure",
    "openrouter": "openrouter",
    "vertex": "vertex",
    "vertex_ai": "vertex",
}
"""Platforms by the first part of a model's path."""
_STICKY = {"openrouter": (600.0, "openrouter.ai: sticky routing, for 10 idle minutes")}
"""How long a routing platform sends a conversation to the same provider, and the source: with
another provider the cache is cold, however long the first one keeps it."""


def _routed(sheet: PriceSheet, platform: str) -> PriceSheet:
    """Return a sheet whose cache is kept no longer than requests find their way to it."""
    most, why = _STICKY.get(platform, (math.inf, ""))
    lives = tuple(replace(one, seconds=min(one.seconds, most)) for one in sheet.lifetimes)
    if sheet.ttl_seconds <= most and lives == sheet.lifetimes:
        return sheet
    return replace(
        sheet,
        ttl_seconds=min(sheet.ttl_seconds, most),
        lifetimes=lives,
        source=f"{sheet.source}; {why}",
    )


def load_sheets(toml_text: str) -> dict[str, PriceSheet]:
    """Return the sheets of a TOML text by family: one table each, its fields those of a sheet.

    `like` fills in missing fields from a table above it or from a shipped
    sheet, except its note. A table with `write` gets no `lifetimes` that way.

    >>> load_sheets('ours = {like = "claude-opus-4-5", input = 4.0}')["ours"].write
    1.25

    Raises:
        PriceSheetError: The text is not TOML, or a table is not a sheet.
    """
    return _load(toml_text, None)


@cache
def shipped_sheets() -> Mapping[str, PriceSheet]:
    """Return the shipped sheets, by family; the data file is read on first use."""
    text = resources.files("agora.core").joinpath("prices.toml").read_text(encoding="utf-8")
    return _load(text, {})


_FIELDS: Mapping[str, type[Any]] = {
    "input": float,
    "read": float,
    "write": float,
    "output": float,
    "minimum_prefix": int,
    "block": int,
    "ttl_seconds": float,
    "ttl_assumed": bool,
    "breakpoints": int,
    "lookback": int,
    "common_prefix": bool,
    "hit": float,
    "window": int,
    "tiers": Tier,
    "lifetimes": Lifetime,
    "prefill_seconds_per_million": float,
    "source": str,
    "date": str,
    "note": str,
}
_NEEDED = ("input", "read", "write", "output")


def _load(toml_text: str, base: Mapping[str, PriceSheet] | None) -> dict[str, PriceSheet]:
    """Return the sheets of a text; `base` has those that `like` may name, None for the shipped."""
    try:
        tables = tomllib.loads(toml_text)
    except tomllib.TOMLDecodeError as error:
        raise PriceSheetError("", f"is not TOML: {error}") from error
    sheets: dict[str, PriceSheet] = {}
    for family, table in tables.items():
        if not isinstance(table, dict):
            raise PriceSheetError(family, "is not a table; write [name] above its fields")
        values: dict[str, object] = {}
        like = table.pop("like", None)
        if like is not None:
            model = sheets.get(like) or (shipped_sheets() if base is None else base).get(like)
            if model is None:
                raise PriceSheetError(
                    family, f"is like {like!r}, but no sheet above it has that name"
                )
            values = {field.name: getattr(model, field.name) for field in fields(model)}
            del values["note"]
            if "write" in table:
                values["lifetimes"] = ()
        for key, value in table.items():
            values[key] = _typed(family, key, value)
        missing = [key for key in _NEEDED if key not in values]
        if missing:
            raise PriceSheetError(family, f"lacks {', '.join(missing)}; add them, or `like`")
        values["name"] = family
        sheets[family] = PriceSheet(**values)  # type: ignore[arg-type]
    return sheets


def _typed(family: str, key: str, value: object) -> object:
    """Return a field's value, an integer also where a decimal is wanted."""
    wanted = _FIELDS.get(key)
    if wanted is None:
        raise PriceSheetError(family, f"has {key}; the fields are {', '.join(_FIELDS)}, like")
    if wanted is Tier or wanted is Lifetime:
        return _rows(family, key, value, wanted)
    return _plain(family, key, value, wanted)


def _rows(family: str, key: str, value: object, kind: type[Any]) -> tuple[object, ...]:
    """Return the rows of a list of tables: `[{above = 272000, input = 2, output = 1.5}]`."""
    names = {field.name: field.type for field in fields(kind)}
    rows: list[Any] = value if isinstance(value, list) else [None]
    if not all(isinstance(row, dict) and row.keys() == names.keys() for row in rows):
        raise PriceSheetError(
            family, f"has {key} {value!r}; it must be a list of tables with {', '.join(names)}"
        )
    return tuple(
        kind(**{name: _plain(family, name, row[name], wanted) for name, wanted in names.items()})
        for row in rows
    )


def _plain(family: str, key: str, value: object, wanted: Any) -> object:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise PriceSheetError(family, f"has {key} {value!r}; it is a {wanted.__name__}")
    return value
