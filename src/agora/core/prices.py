"""What a provider charges for a prompt, and which part of it is cached."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources

from agora.errors import PriceSheetError

UNKNOWN = "unknown"
"""The sheet of a model without one. When in doubt, editing is assumed to be expensive."""
FAMILIES = ("claude", "gpt", "gemini", "deepseek", "mistral")
"""Sheets of whole families: a version without its own sheet is priced by its family's."""


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
    breakpoints: int = 0
    """How many places of a prompt the caller may mark; 0 if the provider caches automatically."""
    lookback: int = 0
    """How many content blocks are searched back from a breakpoint, itself included; 0 for all."""
    common_prefix: bool = False
    """Whether a prefix that two requests were seen to share is kept, with `block` 0."""
    hit: float = 1.0
    """The share of what is cached that a call really reads, as measured; a best-effort cache misses
    the rest, which is then billed as a write. 1 if it has not been measured."""
    window: int | None = None
    """Tokens a prompt may have."""
    prefill_seconds_per_million: float | None = None
    """For your own hardware: how long a million uncached prompt tokens take."""
    source: str = ""
    date: str = ""
    note: str = ""
    """Where sources disagree."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "minimum_prefix", "block", "ttl_seconds", "lookback"):
            if not 0 <= getattr(self, name) < math.inf:
                raise PriceSheetError(self.name, f"has {name} {getattr(self, name)!r}; 0 or more")
        if not 0 <= self.read <= 1:
            raise PriceSheetError(
                self.name, f"has read {self.read!r}; it is a ratio to input, from 0 to 1"
            )
        if not 0 < self.hit <= 1:
            raise PriceSheetError(
                self.name, f"has hit {self.hit!r}; it is a share, above 0 and at most 1"
            )
        if not 1 <= self.write < math.inf:
            raise PriceSheetError(
                self.name, f"has write {self.write!r}; it is a ratio to input, 1 or more"
            )

    @property
    def caches(self) -> bool:
        """Whether the cache changes what a prompt costs."""
        return self.read < 1 or self.write > 1

    @property
    def expected_read(self) -> float:
        """Price of a token that should be cached: read if the cache hits, written again otherwise.

        >>> sheet_for("gpt-4o").expected_read
        0.5
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
        )

    def dollars(
        self, *, uncached: float = 0, read: float = 0, written: float = 0, output: float = 0
    ) -> float:
        """Return what a call costs, from its tokens by how they were billed."""
        tokens = uncached + read * self.read + written * self.write
        return (tokens * self.input + output * self.output) / 1_000_000


def sheet_for(model: str, sheets: Mapping[str, PriceSheet] | None = None) -> PriceSheet:
    """Return the sheet of the longest family that `model` begins with.

    Whatever gateways put around a name is removed first. `sheets` are searched
    before the shipped ones. A version without a sheet is not mistaken for its
    neighbour: it gets its family's sheet (one of `FAMILIES`; say so where you
    show prices), and a name of no family gets "unknown", reads at 0.1 and writes at 1.25.

    >>> sheet_for("bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0").name
    'claude-opus-4-5'
    >>> sheet_for("openai/gpt-4o-2024-08-06").read
    0.5
    >>> sheet_for("gemini-9-pro-preview").name, sheet_for("somebody/something-new").name
    ('gemini', 'unknown')
    """
    name = _bare(model)
    for known in (sheets or {}), shipped_sheets():
        found = [family for family in known if _belongs(name, family.lower().replace(".", "-"))]
        if found:
            return known[max(found, key=len)]
    family = next((one for one in FAMILIES if name.startswith(f"{one}-")), UNKNOWN)
    return shipped_sheets()[family]


def load_sheets(toml_text: str) -> dict[str, PriceSheet]:
    """Return the sheets of a TOML text by family: one table each, its fields those of a sheet.

    `like` fills in what the table does not say from a table above it, or
    from a shipped sheet.

    >>> load_sheets('ours = {like = "claude-opus-4-5", input = 4.0}')["ours"].write
    1.25

    Raises:
        PriceSheetError: it is not TOML, or a table is not a sheet.
    """
    return _load(toml_text, None)


@cache
def shipped_sheets() -> Mapping[str, PriceSheet]:
    """Return the shipped sheets, by family; the data file is read on first use."""
    text = resources.files("agora.core").joinpath("prices.toml").read_text(encoding="utf-8")
    return _load(text, {})


_FIELDS = {
    "input": float,
    "read": float,
    "write": float,
    "output": float,
    "minimum_prefix": int,
    "block": int,
    "ttl_seconds": float,
    "breakpoints": int,
    "lookback": int,
    "common_prefix": bool,
    "hit": float,
    "window": int,
    "prefill_seconds_per_million": float,
    "source": str,
    "date": str,
    "note": str,
}
_NEEDED = ("input", "read", "write", "output")


def _load(toml_text: str, base: Mapping[str, PriceSheet] | None) -> dict[str, PriceSheet]:
    """Return the sheets of a text; `base` is what `like` may name, None for those that ship."""
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
                raise PriceSheetError(family, f"is like {like!r}, which is no sheet above it")
            values = {field.name: getattr(model, field.name) for field in fields(model)}
        for key, value in table.items():
            values[key] = _typed(family, key, value)
        missing = [key for key in _NEEDED if key not in values]
        if missing:
            raise PriceSheetError(family, f"lacks {', '.join(missing)}; or say `like`")
        values["name"] = family
        sheets[family] = PriceSheet(**values)  # type: ignore[arg-type]
    return sheets


def _typed(family: str, key: str, value: object) -> object:
    """Return a field's value, an integer also where a decimal is wanted."""
    wanted = _FIELDS.get(key)
    if wanted is None:
        raise PriceSheetError(family, f"has {key}; the fields are {', '.join(_FIELDS)}, like")
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise PriceSheetError(family, f"has {key} {value!r}; it is a {wanted.__name__}")
    return value


def _bare(model: str) -> str:
    """Return the name without provider path, fine-tuning mark and region or vendor labels."""
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    label, dot, rest = name.partition(".")
    while dot and label.replace("-", "").isalpha():
        label, dot, rest = (name := rest).partition(".")
    return name.replace(".", "-")


def _belongs(name: str, family: str) -> bool:
    """Return whether `name` is the family's own: the same, a variant or a dated release of it."""
    if not name.startswith(family):
        return False
    rest = name[len(family) :]
    if not rest:
        return True
    # "-5" or "-15" after a family is another version of it; "-20251101" and "-0613" are dates.
    digits = len(rest) - 1 - len(rest[1:].lstrip("0123456789"))
    return rest[0] in "-@:_" and digits not in (1, 2)
