"""The options that commands share, and the compressor that they describe."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from agora.adapters import FORMATS
from agora.adapters.base import Observations
from agora.cli.source import Source
from agora.compressor import Compressor
from agora.core.compression import Compression, Reason, Rung
from agora.core.scorer import Scorer
from agora.errors import AgoraError
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer

_SCORERS: dict[str, Callable[[], Scorer]] = {"lexical": LexicalScorer, "recency": RecencyScorer}

Command = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A compressor with what is said of one prompt."""

    compressor: Compressor
    pins: tuple[int, ...] = ()
    observations: Observations | None = None
    model: str | None = None

    def compress(self, source: Source) -> Compression:
        """Return the compression of what was read; raises only if the compressor is strict."""
        request = source.request
        if request.server_side:
            # What is not here cannot be seen, so nothing here can be judged.
            return Compression(
                messages=request.messages,
                reason=Reason.SERVER_SIDE_HISTORY,
                rung=Rung.UNTOUCHED,
                tokens_before=0,
                tokens_after=0,
                format=request.format,
            )
        try:
            compression = self.compressor.compress(
                request.messages,
                model=self.model or request.model,
                format=request.format,
                system=request.system,
                tools=request.tools,
                thinking=request.thinking,
                pins=self.pins,
                observations=self.observations or source.observations,
            )
        except AgoraError as error:
            raise click.ClickException(f"{source.name}: {error}") from error
        self._say_unknown_pins(compression)
        return compression

    def _say_unknown_pins(self, compression: Compression) -> None:
        steps = len(compression.decisions)
        beyond = [pin for pin in self.pins if pin > steps]
        if compression.trajectory is not None and beyond:
            which = ", ".join(f"--pin {pin}" for pin in beyond)
            click.echo(f"{which}: there is no such step; there are {steps:,}", err=True)


def source_options(formats: Sequence[str] = FORMATS) -> Callable[[Command], Command]:
    """Add SOURCE, `--format` and `--log-index` to a command."""

    def add(command: Command) -> Command:
        for option in reversed(
            (
                click.argument("source", type=click.Path(allow_dash=True), default="-"),
                click.option(
                    "--format",
                    type=click.Choice(formats),
                    help="The wire format; found out when not given.",
                ),
                click.option(
                    "--log-index",
                    type=click.IntRange(min=0),
                    metavar="K",
                    help="Which trajectory of a log with several; the first is 0.",
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
        command(setup=_setup(**chosen), **given)

    described: Command = with_setup
    for option in reversed(_OPTIONS):
        described = option(described)
    return described


_OPTIONS = (
    click.option(
        "--schedule",
        type=click.Choice(("by-price", "every-call", "never")),
        help="When to edit: when the model's prices say that it pays, or always, or never."
        "  [default: by-price; with --paper every-call]",
    ),
    click.option(
        "--model",
        metavar="NAME",
        help="The model whose prices count; by default the one the body names.",
    ),
    click.option(
        "--keep-ratio",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="How much of the prompt may stay, where the floor is not larger.  [default: 0.25]",
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=0),
        metavar="TOKENS",
        help="How much may stay, as a number instead of a share.",
    ),
    click.option(
        "--k-recent",
        type=click.IntRange(min=0),
        metavar="N",
        help="How many of the newest steps always stay.  [default: 2]",
    ),
    click.option(
        "--scorer",
        type=click.Choice(tuple(_SCORERS)),
        default="lexical",
        show_default=True,
        help="What scores the steps: shared words, or age.",
    ),
    click.option(
        "--skeleton-share",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="How much of the room that the floor leaves is for skeletons.  [default: 0.6]",
    ),
    click.option(
        "--pin",
        "pins",
        type=click.IntRange(min=1),
        multiple=True,
        metavar="N",
        help="A step that has to stay; may be given several times.",
    ),
    click.option(
        "--observations",
        type=click.Choice(("user",)),
        help="Say that user messages after the first are observations.",
    ),
    click.option(
        "--paper",
        is_flag=True,
        help="The paper's settings: counted in characters, bare markers, no skeletons.",
    ),
    click.option("--strict", is_flag=True, help="Fail instead of handing on what was given."),
)
_NAMES = (
    "schedule",
    "model",
    "keep_ratio",
    "limit",
    "k_recent",
    "scorer",
    "skeleton_share",
    "pins",
    "observations",
    "paper",
    "strict",
)


def _setup(
    *,
    schedule: str | None,
    model: str | None,
    keep_ratio: float | None,
    limit: int | None,
    k_recent: int | None,
    scorer: str,
    skeleton_share: float | None,
    pins: tuple[int, ...],
    observations: Observations | None,
    paper: bool,
    strict: bool,
) -> Setup:
    if paper and skeleton_share:
        raise click.UsageError("--paper writes no skeletons; leave --skeleton-share out.")
    base = Compressor.paper() if paper else Compressor()
    changes: dict[str, Any] = {"scorer": _SCORERS[scorer](), "strict": strict}
    if keep_ratio is not None or limit is not None:
        try:
            changes["budget"] = replace(base.budget, keep_ratio=keep_ratio, limit=limit)
        except AgoraError as error:
            raise click.UsageError(f"the {error}") from error
    if k_recent is not None:
        changes["k_recent"] = k_recent
    if skeleton_share is not None:
        changes["skeleton_share"] = skeleton_share
    if schedule is not None:
        changes["schedule"] = schedule.replace("-", "_")
    return Setup(
        compressor=replace(base, **changes), pins=pins, observations=observations, model=model
    )
