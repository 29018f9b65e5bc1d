"""The options that commands share, and the compressor that they describe."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from agora.cli.source import Source
from agora.compressor import Compressor
from agora.core.action_lines import printable
from agora.core.compression import Compression, FallbackLevel, Reason
from agora.core.prices import FAMILIES, UNKNOWN, sheet_for, shipped_sheets
from agora.core.request import Observations
from agora.core.schedule import MAX_COST_RATIO, MIN_TOKENS
from agora.core.scorer import NAMES
from agora.core.settings import EDITS, ToolKind
from agora.errors import AgoraError, BundleError
from agora.formats import FORMATS
from agora.paper import PaperCompressor
from agora.scorers.cross_encoder import CrossEncoderScorer
from agora.scorers.load import DEFAULT, load_scorer

if TYPE_CHECKING:
    from agora.cli.logged import Logged

Command = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A compressor with what is said of one prompt."""

    compressor: Compressor
    pins: tuple[int, ...] = ()
    observations: Observations | None = None
    model: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    """The options that were set, by name."""

    def paper(self, source: Source) -> Compression:
        """Return the compression by the paper's method."""
        for name in self.given:
            if name not in _PAPER_OPTIONS:
                flag = f"--{name.removesuffix('s').replace('_', '-')}"
                if name == "tools":
                    flag, _ = _TOOL_OPTIONS[next(iter(self.given["tools"].values()))]
                raise click.UsageError(f"--paper does not take {flag}")
        if "scorer" not in self.given:
            raise click.UsageError("--paper needs --scorer with the folder of a trained scorer")
        scorer = self.compressor.scorer
        if not isinstance(scorer, CrossEncoderScorer):
            name = printable(str(self.given["scorer"]))
            click.echo(
                f"{name} is not the paper's kind of scorer: only a cross-encoder gives the"
                " probability that the threshold 0.9 is meant for.",
                err=True,
            )
        settings = {name: self.given[name] for name in ("k_recent",) if name in self.given}
        if "keep_ratio" in self.given:
            settings["rho"] = self.given["keep_ratio"]
        compressor = PaperCompressor(scorer, strict=self.compressor.strict, **settings)
        request = source.request
        try:
            return compressor.compress(
                request.messages,
                format=request.format,
                system=request.system,
                tools=request.tools,
                observations=self.observations or request.observations,
            )
        except AgoraError as error:
            raise click.ClickException(f"{source.name}: {error}") from error

    def compress(self, source: Source) -> Compression:
        """Return the compression of what was read; raises only if the compressor is strict."""
        request = source.request
        if request.server_side:
            # What is not here cannot be seen, so nothing here can be judged.
            return Compression(
                messages=request.messages,
                reason=Reason.SERVER_SIDE_HISTORY,
                fallback_level=FallbackLevel.UNTOUCHED,
                tokens_before=0,
                tokens_after=0,
                format=request.format,
            )
        log = self.logged(source)
        for note in () if log is None else log.notes():
            click.echo(printable(note), err=True)
        try:
            compression = self.compressor_of(log).compress(
                request.messages,
                model=self.model or request.model,
                format=request.format,
                system=request.system,
                tools=request.tools,
                thinking=request.thinking,
                pins=self.pins,
                observations=self.observations or request.observations,
                sized=None if log is None else log.sized,
            )
        except AgoraError as error:
            raise click.ClickException(f"{source.name}: {error}") from error
        self._say_unknown_pins(compression)
        self._say_prices(source)
        return compression

    def logged(self, source: Source) -> "Logged | None":
        """Return what the log tells of a trajectory besides its messages, if it is from one."""
        if source.recording is None or self.compressor.budget.unit != "tokens":
            return None
        from agora.cli.logged import logged

        request = source.request
        return logged(
            source.recording,
            model=self.model or request.model,
            format=request.format,
            observations=self.observations or request.observations,
        )

    def compressor_of(self, log: "Logged | None") -> Compressor:
        """Return the compressor, at the prices that the log's calls were made at."""
        return self.compressor if log is None else log.priced(self.compressor)

    def _say_prices(self, source: Source) -> None:
        """Say whose prices counted, where the model has no sheet of its own."""
        model = self.model or source.request.model
        if not isinstance(model, str) or not model or self.compressor.edits != "by_price":
            return
        sheet = sheet_for(model)
        shown = printable(model)
        if sheet.name in FAMILIES:
            said = f"No price sheet for {shown}: priced as the family {sheet.name}."
        elif sheet.name == UNKNOWN:
            said = f"No price sheet for {shown} or its family: a placeholder price is used."
        else:
            return
        click.echo(f"{said} Name another model with --model.", err=True)

    def _say_unknown_pins(self, compression: Compression) -> None:
        steps = len(compression.decisions)
        beyond = [pin for pin in self.pins if pin > steps]
        if compression.trajectory is not None and beyond:
            which = ", ".join(f"--pin {pin}" for pin in beyond)
            click.echo(f"{which}: no such step; the conversation has {steps:,}", err=True)


def source_options(formats: Sequence[str] = FORMATS) -> Callable[[Command], Command]:
    """Add SOURCE, `--format` and `--index` to a command."""

    def add(command: Command) -> Command:
        for option in reversed(
            (
                click.argument("source", type=click.Path(allow_dash=True), default="-"),
                click.option(
                    "--format",
                    type=click.Choice(formats),
                    help="The wire format; detected by default.",
                ),
                click.option(
                    "--index",
                    "--log-index",
                    "log_index",
                    type=click.IntRange(min=0),
                    metavar="K",
                    help="Which trajectory of a log; the first is 0. Or write SOURCE#K.",
                ),
            )
        ):
            command = option(command)
        return command

    return add


def compressor_options(command: Command) -> Command:
    """Add the compressor's options to a command, which gets them as one `setup`."""

    @functools.wraps(command)
    def with_setup(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in _NAMES}
        # 0 is a value, though it equals False.
        options = {n: v for n, v in chosen.items() if v is not False and v not in (None, (), {})}
        command(setup=replace(_setup(**chosen), given=options), **given)

    described: Command = with_setup
    for option in reversed(_OPTIONS):
        described = option(described)
    return described


def scorer_option(**changed: Any) -> Callable[[Command], Command]:
    """Return the option `--scorer`: every name and every bundle's folder, as a checked text."""
    said: dict[str, Any] = {
        "metavar": "NAME|FOLDER",
        "callback": _known_scorers,
        "default": DEFAULT,
        "show_default": True,
        "help": f"Scorer of the steps: {', '.join(NAMES)}, or the folder of a trained one.",
    }
    return click.option("--scorer", *changed.pop("names", ()), **(said | changed))


def min_tokens_option() -> Callable[[Command], Command]:
    """Return the option `--min-tokens`."""
    return click.option(
        "--min-tokens",
        type=click.IntRange(min=0),
        metavar="TOKENS",
        help=f"Leave smaller prompts alone (edits by_price).  [default: {MIN_TOKENS}]",
    )


def max_cost_ratio_option() -> Callable[[Command], Command]:
    """Return the option `--max-cost-ratio`."""
    return click.option(
        "--max-cost-ratio",
        type=click.FloatRange(min=1),
        metavar="RATIO",
        help="Highest input bill at any call, as a ratio to never editing; inf for no limit "
        f"(edits by_price).  [default: {MAX_COST_RATIO}]",
    )


def tool_options(command: Command) -> Command:
    """Add what can be said of tools to a command, which gets it as one mapping `tools`."""

    @functools.wraps(command)
    def with_tools(**given: Any) -> None:
        tools: dict[str, ToolKind] = {}
        for kind in _TOOL_OPTIONS:
            for name in given.pop(kind):
                if tools.setdefault(name, kind) != kind:
                    raise click.UsageError(
                        f"{_TOOL_OPTIONS[tools[name]][0]} and {_TOOL_OPTIONS[kind][0]} both name"
                        f" {printable(name)}"
                    )
        command(tools=tools, **given)

    described: Command = with_tools
    for kind, (flag, text) in reversed(list(_TOOL_OPTIONS.items())):
        described = click.option(flag, kind, multiple=True, metavar="NAME", help=text)(described)
    return described


_TOOL_OPTIONS: Mapping[ToolKind, tuple[str, str]] = {
    "keep": ("--keep-tool", "Always keep the steps of this tool; may be repeated."),
    "changes": (
        "--changing-tool",
        "This tool changes something: its steps always leave a line; may be repeated.",
    ),
    "reads": (
        "--reading-tool",
        "This tool only reads: its steps may be left out; may be repeated.",
    ),
}


def _known_scorers(ctx: click.Context, param: click.Parameter, given: Any) -> Any:
    """Return what was given if there is a scorer of each name, or in each folder."""
    for name in given if isinstance(given, tuple) else (given,) if given else ():
        try:
            load_scorer(name)
        except BundleError as error:
            raise click.BadParameter(str(error), ctx, param) from error
    return given


def complete_model(
    ctx: click.Context,  # noqa: ARG001
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Return the models and families that have a price sheet, for a shell to complete."""
    return [
        CompletionItem(name, help=f"${sheet.input:g} per million, cached {sheet.read:g}")
        for name, sheet in shipped_sheets().items()
        if name.startswith(incomplete) and name != UNKNOWN
    ]


_OPTIONS = (
    click.option(
        "--edits",
        type=click.Choice(EDITS),
        help="When to edit: when it pays at the model's prices, only when the cache is gone anyway"
        " (free), at every call, or never."
        "  [default: by_price]",
    ),
    click.option(
        "--model",
        metavar="NAME",
        shell_complete=complete_model,
        help="Use this model's prices; by default those of the model in the request.",
    ),
    click.option(
        "--keep-ratio",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Share of the prompt to keep, unless the floor is larger.  [default: 0.25]",
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=0),
        metavar="TOKENS",
        help="Tokens of the prompt to keep, instead of a share.",
    ),
    click.option(
        "--k-recent",
        type=click.IntRange(min=0),
        metavar="N",
        help="Always keep this many of the newest steps.  [default: 2]",
    ),
    scorer_option(
        default=None,
        show_default=False,
        help=f"Scorer of the steps: {', '.join(NAMES)}, or the folder of a trained one."
        f"  [default: {DEFAULT}]",
    ),
    min_tokens_option(),
    max_cost_ratio_option(),
    tool_options,
    click.option(
        "--pin",
        "pins",
        type=click.IntRange(min=1),
        multiple=True,
        metavar="N",
        help="Always keep this step; may be repeated.",
    ),
    click.option(
        "--observations",
        type=click.Choice(("user", "none")),
        help="Treat user messages after the first as observations, or none of them. By default"
        " known frames are recognised.",
    ),
    click.option("--strict", is_flag=True, help="Fail instead of returning the input unchanged."),
)
_NAMES = (
    "edits",
    "model",
    "keep_ratio",
    "limit",
    "k_recent",
    "scorer",
    "min_tokens",
    "max_cost_ratio",
    "tools",
    "pins",
    "observations",
    "strict",
)
_PAPER_OPTIONS = ("keep_ratio", "k_recent", "scorer", "observations", "strict")
"""The options that the paper's method has."""


def _setup(
    *,
    edits: str | None,
    model: str | None,
    keep_ratio: float | None,
    limit: int | None,
    k_recent: int | None,
    scorer: str | None,
    min_tokens: int | None,
    max_cost_ratio: float | None,
    tools: Mapping[str, ToolKind],
    pins: tuple[int, ...],
    observations: Observations | None,
    strict: bool,
) -> Setup:
    base = Compressor()
    changes: dict[str, Any] = {"strict": strict, "tools": tools}
    if scorer is not None:
        changes["scorer"] = load_scorer(scorer)
    if keep_ratio is not None or limit is not None:
        try:
            changes["budget"] = replace(base.budget, keep_ratio=keep_ratio, limit=limit)
        except AgoraError as error:
            raise click.UsageError(str(error)) from error
    if k_recent is not None:
        changes["k_recent"] = k_recent
    if min_tokens is not None:
        changes["min_tokens"] = min_tokens
    if max_cost_ratio is not None:
        changes["max_cost_ratio"] = max_cost_ratio
    if edits is not None:
        changes["edits"] = edits
    return Setup(
        compressor=replace(base, **changes),
        pins=pins,
        observations=observations,
        model=model,
    )
