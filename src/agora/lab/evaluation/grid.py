"""A grid: environments, backbones, methods, seeds and tasks in a TOML file, read as cells."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from agora.errors import AgoraError
from agora.lab.episodes.episode import Cell
from agora.lab.methods import target_of

READER = "reader"
GRAMMAR = "+grammar"
"""Part of the name of a backbone that may say only what the environment allows."""
PRICES = (
    "gpt-4o-mini",
    "gpt-5-mini",
    "gpt-5.6",
    "claude-sonnet-4-5",
    "gemini-2.5-flash",
    "deepseek-chat",
    "mistral-large",
)
"""One sheet of each way of billing that is in use, where a grid names none."""
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
    """Where an OpenAI-compatible server answers; empty for the readers."""
    model: str = ""
    """What the server calls it; `name` where it is not said."""
    grammar: bool = False
    """Whether a llama.cpp server may write only what the environment allows."""
    max_tokens: int = 64
    concurrency: int = 4
    make: str = ""
    """`package.module:function` that returns a backbone, for one that is neither."""
    environments: tuple[str, ...] = ()
    """Those of the grid that it plays; all where none is named."""
    methods: tuple[str, ...] = ()
    """Those of the grid that it plays under; all where none is named."""
    tasks: int | None = None
    """At most so many, where it is not as many as the others."""
    split: str = ""

    @property
    def reads(self) -> bool:
        """Whether it is the environment's reader."""
        return not self.url and not self.make


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEntry:
    """A method of a grid with its settings, under the name that its cells have."""

    name: str
    method: str = ""
    """The method's own name; `name` where it is not said."""
    keep_ratio: float | None = None
    scorer: str = ""
    """AGORA's scorer by name, or a bundle's folder."""
    model: str = ""
    """The model whose prices it goes by."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the method's own class."""
    varies: str = ""
    """The parameter that a sweep varies, and its value: pictures of sensitivity are made of it."""
    value: Any = None

    @property
    def target(self) -> float | None:
        """The compression that it is set to, if it is set to one."""
        return target_of(self.method, self.keep_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is to be compared."""

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
    """Files of training labels, whose tasks must not be evaluated on."""

    def cells(self) -> Iterator[Cell]:
        """Yield what is to be played, the method changing first."""
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
        GridError: it is not TOML, or says something that cannot be played.
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
    grid: Grid = _entry(Grid, {**found, "backbones": backbones, "methods": methods}, "it")
    _check(grid)
    return grid


def _method(one: Any, keep_ratio: float, model: str) -> MethodEntry:
    if not isinstance(one, str | Mapping):
        raise GridError(f"has {one!r} where a method should be a name or a table")
    values = {"name": one} if isinstance(one, str) else dict(one)
    values.setdefault("method", values.get("name"))
    values.setdefault("keep_ratio", keep_ratio)
    values.setdefault("model", model)
    return _entry(MethodEntry, values, "a method")


def _sweep(sweep: Any, keep_ratio: float, model: str) -> Iterator[MethodEntry]:
    """Yield a method for each value of a parameter, the others as they are."""
    try:
        parameter, values = sweep["parameter"], sweep["values"]
        method = sweep["method"]
    except (KeyError, TypeError) as error:
        raise GridError("has a sweep without method, parameter and values") from error
    rest = {k: v for k, v in sweep.items() if k not in ("parameter", "values", "name")}
    label = sweep.get("name", method)
    for value in values:
        own = {**rest, "name": f"{label} {parameter}={value}", "varies": parameter, "value": value}
        if parameter in ("keep_ratio", "scorer", "model"):
            own[parameter] = value
        else:
            own["options"] = {**rest.get("options", {}), parameter: value}
        yield _method(own, keep_ratio, model)


def _entry(kind: type[T], values: Any, what: str) -> T:
    if not isinstance(values, Mapping):
        raise GridError(f"has {values!r} where {what} should be a name or a table")
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    odd = sorted(values.keys() - known)
    if odd:
        raise GridError(f"says {', '.join(odd)} of {what}; known are {', '.join(sorted(known))}")
    made = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        return kind(**made)
    except TypeError as error:
        raise GridError(f"does not say all of {what}: {error}") from error


def _check(grid: Grid) -> None:
    for what, names in (
        ("backbones", [one.name for one in grid.backbones]),
        ("methods", [one.name for one in grid.methods]),
        ("environments", grid.environments),
    ):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        if twice:
            raise GridError(f"has {what} of the same name: {', '.join(twice)}")
    for backbone in grid.backbones:
        _known("environments", backbone.environments, grid.environments, backbone.name)
        _known("methods", backbone.methods, [one.name for one in grid.methods], backbone.name)
        if backbone.reads and backbone.name != READER:
            raise GridError(f"has a backbone {backbone.name!r} that is no reader and has no url")
        if backbone.grammar and GRAMMAR not in backbone.name:
            raise GridError(
                f"holds {backbone.name!r} to a grammar, which makes it another backbone: name it "
                f"{backbone.name}{GRAMMAR} and say its model"
            )
    for method in grid.methods:
        try:
            target_of(method.method, method.keep_ratio)
        except ValueError as error:
            raise GridError(f"names what is not there: {error}") from error


def _known(what: str, named: Sequence[str], known: Sequence[str], backbone: str) -> None:
    odd = [name for name in named if name not in known]
    if odd:
        raise GridError(f"has {what} for {backbone} that are not in it: {', '.join(odd)}")
