"""A grid: environments, backbones, methods, seeds and tasks in a TOML file, read as cells."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from agora.errors import AgoraError
from agora_lab.episodes.episode import Cell
from agora_lab.methods import target_of

READER = "reader"
PRICES = (
    "gpt-4o-mini",
    "gpt-5-mini",
    "gpt-5.6",
    "claude-sonnet-4-5",
    "gemini-2.5-flash",
    "deepseek-chat",
    "mistral-large",
)
"""The default: one sheet for each billing scheme in use."""
T = TypeVar("T")


class GridError(AgoraError):
    """A grid file that cannot be played."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"the grid {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneEntry:
    """A backbone of a grid: the readers, or a language model behind an endpoint."""

    name: str
    url: str = ""
    """Base URL of an OpenAI-compatible server; empty for the readers."""
    model: str = ""
    """The server's name for the model; defaults to `name`."""
    max_tokens: int = 64
    concurrency: int = 4
    make: str = ""
    """`package.module:function` that returns any other backbone."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of that function."""
    environments: tuple[str, ...] = ()
    """The environments of the grid it plays; empty for all."""
    methods: tuple[str, ...] = ()
    """The methods of the grid it plays with; empty for all."""
    tasks: int | None = None
    """Most tasks, if different from the grid's."""
    split: str = ""

    @property
    def reads(self) -> bool:
        """Whether it is the environment's reader."""
        return not self.url and not self.make


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEntry:
    """A method of a grid with its settings, under the name its cells carry."""

    name: str
    method: str = ""
    """The method to run; defaults to `name`."""
    keep_ratio: float | None = None
    scorer: str = ""
    """The name of AGORA's scorer, or a bundle's folder."""
    model: str = ""
    """The model whose prices it decides by."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the method's own class."""

    @property
    def target(self) -> float | None:
        """The compression it is set to, if any."""
        return target_of(self.method, self.keep_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What to compare."""

    name: str
    environments: tuple[str, ...]
    backbones: tuple[BackboneEntry, ...]
    methods: tuple[MethodEntry, ...]
    seeds: tuple[int, ...] = (0,)
    tasks: int = 30
    split: str = "test"
    steps: int | None = None
    prices: tuple[str, ...] = PRICES
    labels: tuple[str, ...] = ()
    """Files of training labels, whose tasks must not be used for evaluation."""

    def cells(self) -> Iterator[Cell]:
        """Yield the cells to play; the method varies fastest."""
        for seed in self.seeds:
            for backbone in self.backbones:
                for environment in backbone.environments or self.environments:
                    for method in self.methods:
                        if not backbone.methods or method.name in backbone.methods:
                            yield Cell(
                                environment=environment,
                                backbone=backbone.name,
                                method=method.name,
                                seed=seed,
                            )

    def backbone(self, name: str) -> BackboneEntry:
        """Return the backbone of that name."""
        return next(one for one in self.backbones if one.name == name)

    def method(self, name: str) -> MethodEntry:
        """Return the method of that name."""
        return next(one for one in self.methods if one.name == name)

    def value(self) -> dict[str, Any]:
        """Return it as JSON, for a run's settings."""
        value = asdict(self)
        for method, entry in zip(value["methods"], self.methods, strict=True):
            method["target"] = entry.target
        return value


def read_grid(text: str) -> Grid:
    r"""Return the grid in a TOML text.

    >>> grid = read_grid('name = "g"\nenvironments = ["webshop"]\nmethods = ["none", "floor"]')
    >>> [cell.method for cell in grid.cells()]
    ['none', 'floor']

    Raises:
        GridError: it is not TOML, or cannot be played.
    """
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GridError(f"is not TOML: {error}") from error
    for name in ("name", "environments", "methods"):
        if not found.get(name):
            raise GridError(f"lacks {name}")
    keep_ratio = found.pop("keep_ratio", 0.25)
    model = found.pop("model", "")
    methods = [_method(one, keep_ratio, model) for one in found.pop("methods")]
    for sweep in found.pop("sweeps", ()):
        methods += _sweep(sweep, keep_ratio, model)
    backbones = [
        _entry(BackboneEntry, {"name": one} if isinstance(one, str) else one, "a backbone")
        for one in found.pop("backbones", (READER,))
    ]
    return checked(
        _entry(Grid, {**found, "backbones": backbones, "methods": methods}, "the grid itself")
    )


def one_cell(
    environment: str,
    backbone: BackboneEntry,
    method: MethodEntry,
    *,
    seed: int = 0,
    tasks: int = 10,
    split: str = "test",
    steps: int | None = None,
) -> Grid:
    """Return a grid of one cell, named after it.

    Raises:
        GridError: it cannot be played.
    """
    return checked(
        Grid(
            name=f"{environment} {backbone.name} {method.name}",
            environments=(environment,),
            backbones=(backbone,),
            methods=(method,),
            seeds=(seed,),
            tasks=tasks,
            split=split,
            steps=steps,
        )
    )


def _method(one: Any, keep_ratio: float, model: str) -> MethodEntry:
    if not isinstance(one, str | Mapping):
        raise GridError(f"has {one!r} where a method should be a name or a table")
    values = {"name": one} if isinstance(one, str) else dict(one)
    values.setdefault("method", values.get("name"))
    values.setdefault("keep_ratio", keep_ratio)
    values.setdefault("model", model)
    return _entry(MethodEntry, values, "a method")


def _sweep(sweep: Any, keep_ratio: float, model: str) -> Iterator[MethodEntry]:
    """Yield a method for each value of a parameter, all else fixed."""
    try:
        parameter, values, method = sweep["parameter"], sweep["values"], sweep["method"]
    except (KeyError, TypeError) as error:
        raise GridError("has a sweep without method, parameter and values") from error
    for value in values:
        own = {"name": f"{method} {parameter}={value}", "method": method}
        if parameter in ("keep_ratio", "scorer", "model"):
            yield _method({**own, parameter: value}, keep_ratio, model)
        else:
            yield _method({**own, "options": {parameter: value}}, keep_ratio, model)


def _entry(kind: type[T], values: Any, what: str) -> T:
    if not isinstance(values, Mapping):
        raise GridError(f"has {values!r} where {what} should be a name or a table")
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    odd = sorted(values.keys() - known)
    if odd:
        raise GridError(
            f"has unknown keys for {what}: {', '.join(odd)}; use {', '.join(sorted(known))}"
        )
    made = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        return kind(**made)
    except TypeError as error:
        raise GridError(f"lacks part of {what}: {error}") from error


def checked(grid: Grid) -> Grid:
    """Return the grid if it can be played.

    Raises:
        GridError: it cannot, with the reason.
    """
    for what, names in (
        ("backbones", [one.name for one in grid.backbones]),
        ("methods", [one.name for one in grid.methods]),
        ("environments", grid.environments),
    ):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        if twice:
            raise GridError(f"has {what} with the same name: {', '.join(twice)}")
    for backbone in grid.backbones:
        _known("environments", backbone.environments, grid.environments, backbone.name)
        _known("methods", backbone.methods, [one.name for one in grid.methods], backbone.name)
        if backbone.reads and backbone.name != READER:
            raise GridError(f"has a backbone {backbone.name!r} that is not a reader and has no url")
    for method in grid.methods:
        try:
            target_of(method.method, method.keep_ratio)
        except ValueError as error:
            raise GridError(f"names something that does not exist: {error}") from error
    return grid


def _known(what: str, named: Sequence[str], known: Sequence[str], backbone: str) -> None:
    odd = [name for name in named if name not in known]
    if odd:
        raise GridError(f"has {what} for {backbone} that the grid does not list: {', '.join(odd)}")
