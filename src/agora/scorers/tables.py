"""An ensemble of small trees over small whole numbers, read from tables.

A tree that asks about two features is a table of their values, and a sum of
such trees over the same two features is one table. So hundreds of trees cost a
few dozen lookups, exactly and not nearly.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora.errors import BundleError

FORMAT = "agora-tables-1"


@dataclass(frozen=True, slots=True)
class Table:
    """What each pair of values of two features adds to the score."""

    first: int
    second: int
    """The places of the two features; the same twice for a table of one."""
    values: tuple[tuple[float, ...], ...]
    """By the value of the first, then of the second."""


@dataclass(frozen=True, slots=True)
class Tables:
    """A trained ensemble with its calibration."""

    features: tuple[str, ...]
    values: int
    """How many values a feature may have."""
    bias: float
    tables: tuple[Table, ...]
    slope: float = 1.0
    intercept: float = 0.0
    """Platt's: the probability is the logistic of slope * sum + intercept."""

    def margins(self, columns: Sequence[Sequence[int]]) -> list[float]:
        """Return the sum for each step, before calibration, from a column per feature.

        The tables are taken in their order, so the sum is the same everywhere.
        """
        sums = [self.bias] * len(columns[0])
        # Four at a time: going through the steps costs more than looking a value up.
        for start in range(0, len(self.tables), 4):
            tables = self.tables[start : start + 4]
            if len(tables) == 4:
                asked = [columns[at] for table in tables for at in (table.first, table.second)]
                one, two, three, four = (table.values for table in tables)
                sums = [
                    total + one[a][b] + two[c][d] + three[e][f] + four[g][h]
                    for total, a, b, c, d, e, f, g, h in zip(sums, *asked, strict=True)
                ]
                continue
            for table in tables:
                values = table.values
                pairs = zip(sums, columns[table.first], columns[table.second], strict=True)
                sums = [total + values[x][y] for total, x, y in pairs]
        return sums

    def probabilities(self, columns: Sequence[Sequence[int]]) -> list[float]:
        """Return the calibrated probability for each step, from a column per feature.

        >>> one = Table(0, 0, ((-1.0, 0.0), (0.0, 1.0)))
        >>> Tables(("ids",), 2, 0.0, (one,)).probabilities([(0, 1)])
        [0.2689414213699951, 0.7310585786300049]
        """
        slope, intercept = self.slope, self.intercept
        exp = math.exp
        # The sums of a checked file cannot overflow: see `read`.
        return [1 / (1 + exp(-(slope * x + intercept))) for x in self.margins(columns)]


_MOST_MARGIN = 300.0
"""Sums beyond this are no log-odds of anything, and their exponential would overflow."""


def write(tables: Tables, about: Mapping[str, Any]) -> str:
    """Return the tables as JSON text, with what is said about them."""
    return (
        json.dumps(
            {
                "format": FORMAT,
                "about": dict(about),
                "features": list(tables.features),
                "values": tables.values,
                "bias": tables.bias,
                "slope": tables.slope,
                "intercept": tables.intercept,
                "tables": [
                    {"of": [t.first, t.second], "rows": [[_short(v) for v in r] for r in t.values]}
                    for t in tables.tables
                ],
            },
            separators=(",", ":"),
        )
        + "\n"
    )


def read(text: str, *, features: Sequence[str], values: int) -> Tables:
    """Return the tables in a JSON text, if they are over these features.

    Raises:
        BundleError: they are not, or something in them is not as it has to be.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"are not JSON ({type(error).__name__})") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise _wrong(f"are not of the format {FORMAT}")
    if found.get("features") != list(features) or found.get("values") != values:
        raise _wrong("are for other features than this version computes")
    listed = found.get("tables")
    if not isinstance(listed, list):
        raise _wrong("have no tables")
    tables = Tables(
        features=tuple(features),
        values=values,
        bias=_number(found.get("bias")),
        tables=tuple(_table(one, len(features), values) for one in listed),
        slope=_number(found.get("slope")),
        intercept=_number(found.get("intercept")),
    )
    most = abs(tables.bias) + sum(max(abs(v) for r in t.values for v in r) for t in tables.tables)
    if abs(tables.slope) * most + abs(tables.intercept) > _MOST_MARGIN:
        raise _wrong("add up to numbers that no training gives")
    return tables


def _wrong(problem: str) -> BundleError:
    return BundleError("the weights", f"{problem}; train or install them again")


def _table(found: Any, features: int, values: int) -> Table:
    if not isinstance(found, dict):
        raise _wrong("have a table that is no object")
    of, rows = found.get("of"), found.get("rows")
    if not (isinstance(of, list) and len(of) == 2 and all(_is_place(n, features) for n in of)):
        raise _wrong(f"have a table of {of!r}, which are not two features")
    if not (isinstance(rows, list) and len(rows) == values):
        raise _wrong(f"have a table without its {values} rows")
    for row in rows:
        if not (isinstance(row, list) and len(row) == values):
            raise _wrong(f"have a row without its {values} numbers")
    return Table(of[0], of[1], tuple(tuple(_number(v) for v in row) for row in rows))


def _is_place(found: Any, features: int) -> bool:
    return type(found) is int and 0 <= found < features


def _number(found: Any) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise _wrong(f"have {found!r} where a number has to be")
    return float(found)


def _short(value: float) -> float:
    """Return the number with the digits that a probability can show."""
    return round(value, 8) or 0.0
