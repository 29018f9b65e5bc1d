"""The options that commands share, and the compressor that they describe."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

import click
from click.shell_completion import CompletionItem

from agora.cli.source import Source
from agora.compressor import Compressor
from agora.core.action_lines import printable
from agora.core.budget import Budget
from agora.core.compression import Compression, FallbackLevel, Reason
from agora.core.prices import FAMILIES, UNKNOWN, sheet_for, shipped_sheets
from agora.core.request import Observations
from agora.core.scorer import NAMES
from agora.core.settings import EDITS, ToolKind
from agora.errors import AgoraError, BundleError
from agora.scorers.load import DEFAULT, load_scorer

if TYPE_CHECKING:
    from agora.cli.logged import Logged

Command = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A compressor, and the command line's settings for one prompt."""

    compressor: Compressor
    pins: tuple[int, ...] = ()
    observations: Observations | None = None
    model: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    """The options that were set, by name."""

    def compress(self, source: Source) -> Compression:
        """Return the compression of the source's request.

        Raises:
            click.ClickException: A setting does not fit the request, such as a pin.
        """
        request = source.request
        if request.server_side:
            # The earlier messages are not here, so nothing can be judged.
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
        compressor = self.compressor_of(log)
        try:
            compression = compressor.compress(
                request.messages,
                model=self.model or request.model,
                format=request.format,
                system=request.system,
                tools=request.tools,
                thinking=request.thinking,
                pins=self.pins,
                observations=self.observations or request.observations,
                state=None if log is None else log.state(compressor),
                sized=None if log is None else log.sized,
            )
        except AgoraError as error:
            raise click.ClickException(f"{source.name}: {error}") from error
        self._check_pins(compression)
        self._warn_of_prices(source)
        return compression

    def logged(self, source: Source) -> "Logged | None":
        """Return a log's facts about a trajectory, or None if it is from no log."""
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

    def _warn_of_prices(self, source: Source) -> None:
        model = self.model or source.request.model
        if not isinstance(model, str) or not model or self.compressor.edits != "by_price":
            return
        sheet = sheet_for(model)
        if sheet.name in (*FAMILIES, UNKNOWN):
            priced = "at a placeholder" if sheet.name == UNKNOWN else f"as the family {sheet.name}"
            name = printable(model)
            click.echo(
                f"No price sheet for {name}: priced {priced}. Name another with --model.", err=True
            )

    def _check_pins(self, compression: Compression) -> None:
        steps = len(compression.decisions)
        beyond = [pin for pin in self.pins if pin > steps]
        if compression.trajectory is not None and beyond:
            which = ", ".join(f"--pin {pin}" for pin in beyond)
            raise click.UsageError(f"{which}: there is no such step; the steps are 1 to {steps:,}")


source_argument = click.argument("source", type=click.Path(allow_dash=True), default="-")


def compressor_options(command: Command) -> Command:
    """Add the compressor's options to a command, which gets them as one `setup`."""

    @functools.wraps(command)
    def with_setup(**options: Any) -> None:
        chosen = {name: options.pop(name) for name in _NAMES}
        given = {name: value for name, value in chosen.items() if value not in (None, ())}
        command(setup=replace(_setup(**chosen), given=given), **options)

    described: Command = with_setup
    for option in reversed(_OPTIONS):
        described = option(described)
    return described


def tool_option(command: Command) -> Command:
    """Add `--tool NAME=KIND` to a command, which gets all of them as one mapping `tools`."""
    return click.option(
        "--tool",
        "tools",
        multiple=True,
        metavar="NAME=KIND",
        callback=_tool_kinds,
        help="Say what a tool does. NAME=keep: its steps always stay; NAME=changes: they always"
        " leave a line; NAME=reads: they may be left out. May be repeated.",
    )(command)


def _tool_kinds(ctx: click.Context, param: click.Parameter, given: Any) -> dict[str, ToolKind]:
    kinds: dict[str, ToolKind] = {}
    for text in given:
        name, mark, kind = text.rpartition("=")
        if not mark or not name or kind not in get_args(ToolKind):
            needed = f"NAME=KIND with one of {', '.join(get_args(ToolKind))}"
            raise click.BadParameter(f"{printable(text)!r} is not {needed}", ctx, param)
        if kinds.setdefault(name, kind) != kind:
            raise click.BadParameter(f"{printable(name)} has two kinds", ctx, param)
    return kinds


def _known_scorer(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    """Return the name if there is a scorer of it, or in the folder."""
    try:
        if name is not None:
            load_scorer(name)
    except BundleError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    return name


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
        " (free), at every call, or never.  [default: by_price]",
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
        help="Share of the prompt to keep, unless the protected steps take more.  [default: 0.25]",
    ),
    click.option(
        "--scorer",
        metavar="NAME|FOLDER",
        callback=_known_scorer,
        help=f"Scorer of the steps: {', '.join(NAMES)}, or the folder of a trained one."
        f"  [default: {DEFAULT}]",
    ),
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
        help="Read user messages after the first as observations, or none of them. By default"
        " known templates are recognised.",
    ),
)
_NAMES = ("edits", "model", "keep_ratio", "scorer", "pins", "observations")


def _setup(
    *,
    edits: str | None,
    model: str | None,
    keep_ratio: float | None,
    scorer: str | None,
    pins: tuple[int, ...],
    observations: Observations | None,
) -> Setup:
    changes: dict[str, Any] = {}
    if scorer is not None:
        changes["scorer"] = load_scorer(scorer)
    if keep_ratio is not None:
        changes["budget"] = Budget(keep_ratio=keep_ratio)
    if edits is not None:
        changes["edits"] = edits
    compressor = Compressor(**changes)
    return Setup(compressor=compressor, pins=pins, observations=observations, model=model)
