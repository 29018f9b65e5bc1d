"""Draws the house: the packages of both distributions as rooms, an import as an arrow.

Run without any extra installed: python docs/images/make_house.py

Floors and arrows come from the source. A package stands one floor above the highest it imports,
or, where others import it, right below the lowest of those. An arrow that a longer way makes
superfluous is not drawn. By hand are the order of the rooms on a floor and the words in them.
"""

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from harness.imports import graph, imported  # noqa: E402

PRODUCT = ROOT / "src" / "agora"
LAB = ROOT / "lab" / "src" / "agora_lab"
OUT = Path(__file__).with_name("house.svg")
WORDS = {
    "cli": "one file per command; the only place that prints",
    "wrapping": "an agent with a gateway",
    "extproc": "a filter in Envoy",
    "replay": "what logs would have saved",
    "logs": "logs of every kind, read",
    "gateway": "the HTTP proxy",
    "experiment": "a fair comparison, live",
    "pages": "parts of HTML pages",
    "rows": "messages kept in their places",
    "agora": "what you import",
    "integrations": "one per framework",
    "testing": "checks, fakes, strategies",
    "compressor": "the stages, put together",
    "arrival": "what results arrive without",
    "bound_thinking": "thinking that still holds",
    "sent_thinking": "how the last call went",
    "savings": "what a client saved",
    "adapters": "wire formats, provider rules",
    "scorers": "what a step is worth",
    "core": "values in, values out: steps, floor, budget, fill, schedule, markers",
    "errors": "what was found, where, and what puts it right",
}
"""What each package of the product is for, from the left to the right on its floor."""
LAB_ORDER = (
    *("cli", "teaching", "fidelity", "training", "labelling", "evaluation"),
    *("bootstrap", "labels", "episodes", "methods"),
    *("journal", "halves", "chats", "backbones", "environments"),
)
STYLE = """
.card{fill:#fff;stroke:#dfe3e8}.ink{fill:#1b1f27}.soft{fill:#565e6c}.wall{fill:#f6f8fa}
.wall,.roof{stroke:#c4cad3;stroke-width:1.5}.roof{fill:#e3e8ee}.ground{stroke:#9aa3b0;stroke-width:2}
.plain{fill:#dff1e5;stroke:#3f9a5f}.extra{fill:#dcecf8;stroke:#2f7fb8}
.lab{fill:#efe4f5;stroke:#8f5bb0}.way{fill:none;stroke:#6b7482;stroke-width:1.6}.head{fill:#6b7482}
.across{fill:none;stroke:#8f5bb0;stroke-width:2.4}.across-head{fill:#8f5bb0}
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
.mono{font:600 15px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.small{font-size:13px}.b{font-weight:650;font-size:17px}.mid{text-anchor:middle}
@media (prefers-color-scheme:dark){
.card{fill:#1b2027;stroke:#313843}.ink{fill:#e8ebf0}.soft{fill:#a4adbb}.wall{fill:#20262f}
.wall,.roof{stroke:#49525f}.roof{fill:#2b323d}.ground{stroke:#717b8a}
.plain{fill:#1f3a2a;stroke:#6cc48b}.extra{fill:#1c3548;stroke:#5aa9de}
.lab{fill:#35274099;stroke:#b98ad8}.way{stroke:#98a2b1}.head{fill:#98a2b1}
.across{stroke:#b98ad8}.across-head{fill:#b98ad8}
}
"""
WIDTH, MARGIN = 1040, 24
ROOM, BETWEEN, ASIDE, PADDING = 50, 30, 18, 18
"""Height of a room, from floor to floor, between rooms, and inside the walls."""
ROOF, GROUND, TOP = 74, 40, 20


@dataclass(frozen=True, slots=True)
class Room:
    """A package and where it is drawn."""

    name: str
    x: float
    y: float
    wide: float

    @property
    def middle(self) -> float:
        """The place of its middle, from the left."""
        return self.x + self.wide / 2


def packages(source: Path) -> dict[str, set[str]]:
    """Return for each package of a distribution those of it that it imports; a module is one too.

    The face is a package like any other, by the name of the whole.
    """
    found: dict[str, set[str]] = {}
    for module, wanted in graph(source).items():
        own = _package(module)
        found.setdefault(own, set()).update({_package(name) for name in wanted} - {own})
    return found


def _package(module: str) -> str:
    parts = module.split(".")
    return parts[min(1, len(parts) - 1)]


def floors(imports: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the floor of each package, from 0 for the lowest."""
    lowest: dict[str, int] = {}

    def at(name: str) -> int:
        if name not in lowest:
            lowest[name] = 1 + max((at(other) for other in imports[name]), default=-1)
        return lowest[name]

    highest: dict[str, int] = {}
    for name in sorted(imports, key=at, reverse=True):
        users = [highest[user] for user in imports if name in imports[user]]
        highest[name] = min(users) - 1 if users else at(name)
    return highest


def floors_of_imports() -> Iterator[tuple[int, int]]:
    """Yield for every import between packages the floors it goes from and to."""
    for source in (PRODUCT, LAB):
        imports = packages(source)
        levels = floors(imports)
        for name, wanted in imports.items():
            yield from ((levels[name], levels[other]) for other in wanted)


def needed(imports: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """Return the imports that no longer way of imports makes superfluous."""

    def reached(name: str) -> set[str]:
        return imports[name].union(*(reached(other) for other in imports[name]))

    return [
        (name, wanted)
        for name in sorted(imports)
        for wanted in sorted(imports[name])
        if not any(wanted in reached(other) for other in imports[name] - {wanted})
    ]


def plain(source: Path, package: str) -> bool:
    """Tell whether no file of a package imports anything but the standard library and ours."""
    folder = source / package
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [source / f"{package}.py"]
    if package == source.name:
        files = [source / "__init__.py"]
    named = {
        name.partition(".")[0]
        for file in files
        for name in imported(ast.parse(file.read_text(encoding="utf-8")))
    }
    return named <= {source.name, *sys.stdlib_module_names}


def across() -> list[str]:
    """Return the packages of the product that the lab imports."""
    return sorted(
        {
            _package(name)
            for file in sorted(LAB.rglob("*.py"))
            for name in imported(ast.parse(file.read_text(encoding="utf-8")))
            if name == "agora" or name.startswith("agora.")
        }
        & packages(PRODUCT).keys()
    )


def rooms(
    imports: Mapping[str, set[str]], order: Sequence[str], x: float, wide: float, ground: float
) -> dict[str, Room]:
    """Return the rooms of a house that stands with its left wall at `x`."""
    places: dict[str, Room] = {}
    levels = floors(imports)
    for level in sorted(set(levels.values())):
        names = sorted((n for n in levels if levels[n] == level), key=order.index)
        free = wide - 2 * PADDING - ASIDE * (len(names) - 1)
        y = ground - PADDING - ROOM - level * (ROOM + BETWEEN)
        left = x + PADDING
        for name in names:
            each = free * _weight(name) / sum(map(_weight, names))
            places[name] = Room(name, left, y, each)
            left += each + ASIDE
    return places


def _weight(name: str) -> float:
    """Return how much of a floor a room wants: what is written in it has to fit."""
    return 5 + max(1.2 * len(name), 0.8 * len(WORDS.get(name, "")))


def ways(places: Mapping[str, Room], imports: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the arrows, each spread a little from others at the same wall."""
    drawn = needed(imports)
    leaving = {name: [wanted for own, wanted in drawn if own == name] for name in places}
    coming = {name: [own for own, wanted in drawn if wanted == name] for name in places}
    for name, wanted in drawn:
        a, b = places[name], places[wanted]
        start = _spread(a, b, [places[one] for one in leaving[name]])
        end = _spread(b, a, [places[one] for one in coming[wanted]])
        points = [(start, a.y + ROOM)]
        between = sorted({room.y for room in places.values() if a.y < room.y < b.y})
        for y in between:
            gap = _gap([room for room in places.values() if room.y == y], points[-1][0], end)
            points += [(gap, y - 4), (gap, y + ROOM + 4)]
        points.append((end, b.y - 7))
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
        for (x1, y1), (x2, y2) in pairwise(points):
            bend = (y2 - y1) * 0.55
            path += f"C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
        yield f'<path d="{path}" class="way"><title>{name} imports {wanted}</title></path>'
        tip = f"M{end - 4.5:.1f} {b.y - 8:g}h9l-4.5 8z"
        yield f'<path d="{tip}" class="head"/>'


def _spread(room: Room, other: Room, others: list[Room]) -> float:
    """Return where on a wall the arrow to `other` stands, beside those to the others."""
    at = sorted(others, key=lambda one: (one.middle, one.name)).index(other)
    share = (at + 1) / (len(others) + 1)
    x = room.x + room.wide * share
    # Straight down where the other is just below and nothing else is at the wall.
    if len(others) == 1 and room.x + 12 < other.middle < room.x + room.wide - 12:
        x = other.middle
    return x


def _gap(row: list[Room], start: float, end: float) -> float:
    """Return where between the rooms of a floor a way passes with the least detour."""
    inside = [(a.x + a.wide + b.x) / 2 for a, b in pairwise(sorted(row, key=lambda room: room.x))]
    outside = [min(room.x for room in row) - 9, max(room.x + room.wide for room in row) + 9]
    return min((*inside, *outside), key=lambda x: abs(x - start) + abs(x - end))


def house(x: float, wide: float, ground: float, levels: int, name: str) -> list[str]:
    """Return the walls and the roof of a house."""
    high = 2 * PADDING + levels * ROOM + (levels - 1) * BETWEEN
    top = ground - high
    eaves = f"M{x - 12:g} {top:g}L{x + wide / 2:g} {top - ROOF:g}L{x + wide + 12:g} {top:g}z"
    return [
        f'<rect x="{x:g}" y="{top:g}" width="{wide:g}" height="{high:g}" class="wall"/>',
        f'<path d="{eaves}" class="roof" stroke-linejoin="round"/>',
        _text(x + wide / 2, top - 18, name, "ink b mid"),
    ]


def furnished(places: Mapping[str, Room], kinds: Mapping[str, str]) -> Iterator[str]:
    """Yield the rooms with what is written in them."""
    for room in places.values():
        words = WORDS.get(room.name, "") if kinds[room.name] != "lab" else ""
        yield (
            f'<rect x="{room.x:.1f}" y="{room.y:.1f}" width="{room.wide:.1f}" height="{ROOM}" '
            f'rx="5" class="{kinds[room.name]}"/>'
        )
        size = "ink mono small mid" if kinds[room.name] == "lab" else "ink mono mid"
        yield _text(room.middle, room.y + (22 if words else 30), room.name, size)
        if words:
            yield _text(room.middle, room.y + 39, words, "soft mid")


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words)}</text>'


def picture() -> str:
    """Return the drawing."""
    product, lab = packages(PRODUCT), packages(LAB)
    # The lab's face brings nothing but a version.
    lab = {name: wanted - {LAB.name} for name, wanted in lab.items() if name != LAB.name}
    levels, lab_levels = 1 + max(floors(product).values()), 1 + max(floors(lab).values())
    height = TOP + ROOF + 2 * PADDING + levels * ROOM + (levels - 1) * BETWEEN + GROUND
    ground = height - GROUND
    wide = 512.0
    lab_x = MARGIN + 12 + wide + 66
    lab_wide = WIDTH - MARGIN - 12 - lab_x
    places = rooms(product, (*WORDS,), MARGIN + 12, wide, ground)
    lab_places = rooms(lab, LAB_ORDER, lab_x, lab_wide, ground)
    kinds = {name: "plain" if plain(PRODUCT, name) else "extra" for name in product}
    y = ground - PADDING - ROOM / 2 - (ROOM + BETWEEN) * (lab_levels - 1) - ROOM / 2 - 6
    parts = [
        f'<path d="M{MARGIN} {ground:g}H{WIDTH - MARGIN}" class="ground"/>',
        *house(MARGIN + 12, wide, ground, levels, "agora-context"),
        *house(lab_x, lab_wide, ground, lab_levels, "agora-lab"),
        *ways(places, product),
        *ways(lab_places, lab),
        *furnished(places, kinds),
        *furnished(lab_places, dict.fromkeys(lab, "lab")),
        f'<path d="M{lab_x:g} {y:g}H{MARGIN + 12 + wide + 10:g}" class="across"/>',
        f'<path d="M{MARGIN + 12 + wide + 11:g} {y - 6:g}v12l-10 -6z" class="across-head"/>',
        _text((MARGIN + 12 + wide + lab_x) / 2 + 3, y + 22, "imports", "soft mid"),
        *_legend(lab_x + 8, TOP + 30, ground),
    ]
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        'aria-label="The packages of agora-context and agora-lab, and which imports which">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1:g}" rx="10" class="card"/>\n'
        f"{inside}\n</svg>\n"
    )


def _legend(x: float, y: float, ground: float) -> Iterator[str]:
    yield _text(x, y, "An arrow is an import, and all of them point down.", "ink")
    for at, (kind, words) in enumerate(
        (
            ("plain", "imports the standard library and nothing else"),
            ("extra", "has files that need an extra"),
            ("lab", "the lab: a distribution of its own"),
        )
    ):
        place = y + 16 + 24 * at
        yield f'<rect x="{x:g}" y="{place:g}" width="22" height="14" rx="3" class="{kind}"/>'
        yield _text(x + 32, place + 12, words, "soft")
    names = across()
    half = (len(names) + 1) // 2
    yield _text(x, y + 112, "The lab imports of the product:", "ink")
    yield _text(x, y + 132, ", ".join(names[:half]) + ",", "soft")
    yield _text(x, y + 150, ", ".join(names[half:]) + ".", "soft")
    yield _text(x, y + 174, "The product does not know the lab.", "ink")
    yield _text(
        WIDTH / 2, ground + 25, "made from the imports by docs/images/make_house.py", "soft mid"
    )


if __name__ == "__main__":
    OUT.write_text(picture(), encoding="utf-8")
