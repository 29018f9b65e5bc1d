"""The `agora prices` commands: the price sheets, and one measured on a server of one's own."""

import json
import random
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from agora.cli.figures import json_option, write_json
from agora.cli.options import complete_model
from agora.cli.price_list import lines, value
from agora.core.prices import (
    FAMILIES,
    UNKNOWN,
    PriceSheet,
    load_sheets,
    sheet_for,
    shipped_sheets,
)
from agora.errors import PriceSheetError

_WORDS = (
    "river table garden window paper engine winter market silver bridge letter summer cloud "
    "stone music forest planet signal copper island number wagon candle mirror harbor"
).split()
_PATIENCE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Timed:
    """One prompt: how long it was by the server's count, and how long until its first token."""

    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What prompts cost on a server."""

    cold: tuple[Timed, ...]
    warm: tuple[Timed, ...]
    seconds_per_token: float
    """Of one that no cache has."""
    warm_seconds_per_token: float
    block: int = 16

    @property
    def read(self) -> float:
        """The price of a cached token, as a ratio to one that is not."""
        ratio = self.warm_seconds_per_token / self.seconds_per_token
        return min(1.0, max(0.001, ratio))

    def sheet(self, name: str) -> str:
        """Return it as a table for `gateway.toml`.

        >>> found = Measured((), (), seconds_per_token=0.0005, warm_seconds_per_token=0.00001)
        >>> print(found.sheet("house").splitlines()[2])
        read = 0.02
        """
        sizes = sorted({timed.tokens for timed in self.cold})
        span = f"{sizes[0]:,} to {sizes[-1]:,}" if sizes else "no"
        source = (
            f"agora prices measure: {len(self.cold)} cold and {len(self.warm)} warm prompts of "
            f"{span} tokens"
        )
        # Four digits that matter, and no exponent, which reads badly in a file.
        prefill = float(f"{self.seconds_per_token * 1e6:.4g}")
        return "\n".join(
            [
                f"[prices.{name}]",
                'like = "self-hosted-cached"',
                f"read = {self.read:.3g}",
                f"prefill_seconds_per_million = {prefill:.10g}",
                f"source = {json.dumps(source)}",
            ]
        )


@click.group(invoke_without_command=True)
@click.pass_context
def prices(ctx: click.Context) -> None:
    """List price sheets, or measure one for your own server."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_sheets, models=(), own=None, json_out=None)


@prices.command(name="list")
@click.argument("models", metavar="[MODEL]...", nargs=-1, shell_complete=complete_model)
@click.option(
    "--prices",
    "own",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with your own price sheets, searched first.",
)
@json_option("the sheets, with the age of each,")
def list_sheets(models: tuple[str, ...], *, own: Path | None, json_out: str | None) -> None:
    """List price sheets: each figure with its source, its date and its age.

    Without MODEL, all shipped sheets are listed. With models, the sheet used for
    each; a prefix says where the model is served (azure/, openrouter/).
    """
    known: dict[str, PriceSheet] = {}
    if own is not None:
        try:
            known = load_sheets(own.read_text(encoding="utf-8"))
        except (PriceSheetError, OSError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{own}: {error}") from error
    today = datetime.now(tz=UTC).date()
    if models:
        found = [sheet_for(model, known) for model in models]
    else:
        found = [*known.values(), *shipped_sheets().values()]
    if write_json(json_out, [value(sheet, today) for sheet in found], indent=1):
        return
    for model, sheet in zip(models, found, strict=False):
        if sheet.name in (*FAMILIES, UNKNOWN):
            click.echo(f"{model} has no sheet of its own: priced as {sheet.name}.", err=True)
    for line in lines(found, today):
        click.echo(line)


@prices.command()
@click.argument("url")
@click.option("--model", help="The model's name; by default the first that the server lists.")
@click.option("--name", default="house", show_default=True, help="What to call the sheet.")
@click.option(
    "--words",
    type=click.IntRange(64, 200_000),
    default=4_000,
    show_default=True,
    help="Words in the longest prompt; stay below the server's window.",
)
@click.option("--repeats", type=click.IntRange(1, 50), default=3, show_default=True)
@json_option("every time that was taken, and the sheet,")
def measure(
    url: str,
    *,
    model: str | None,
    name: str,
    words: int,
    repeats: int,
    json_out: str | None,
) -> None:
    """Measure what a prompt costs on the server at URL, and print a price sheet.

    URL is a vLLM, SGLang or llama.cpp server, or any other with
    /v1/completions. It gets new prompts of four lengths, each sent twice: the
    first time the server has to evaluate it, the second time it comes from its
    prefix cache. Run it while nobody else uses the server.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise click.BadParameter(f"{url!r} is not an http or https address", param_hint="URL")
    server = Server(url.rstrip("/").removesuffix("/v1"), model or "")
    try:
        server.model = server.model or server.first_model()
        found = measured(server.time, words=words, repeats=repeats)
    except (OSError, ValueError, LookupError) as error:
        raise click.ClickException(f"nothing was measured at {server.url}: {error}") from error
    for kind, all_of in (("cold", found.cold), ("warm", found.warm)):
        for timed in all_of:
            click.echo(f"{kind}  {timed.tokens:>7,} tokens  {timed.seconds:8.3f} s", err=True)
    block = found.block * found.seconds_per_token
    click.echo(
        f"An uncached token takes {found.seconds_per_token * 1e3:.3f} ms ({block:.4f} s for a "
        f"missed block of {found.block}); a cached one takes {found.read:.3f} of that.",
        err=True,
    )
    sheet = found.sheet(name)
    if not write_json(
        json_out, {"model": server.model, "read": found.read, "sheet": sheet, **asdict(found)}
    ):
        click.echo(sheet)


@dataclass(slots=True)
class Server:
    """A server with OpenAI's completions."""

    url: str
    model: str

    def first_model(self) -> str:
        """Return the name of a model that it serves."""
        listed = self._ask("/v1/models", None)["data"]
        return str(listed[0]["id"])

    def time(self, prompt: str) -> Timed:
        """Return how long a prompt takes until one token has been made."""
        asked = {"model": self.model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        began = time.monotonic()
        said = self._ask("/v1/completions", asked)
        return Timed(int(said["usage"]["prompt_tokens"]), time.monotonic() - began)

    def _ask(self, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310 - checked
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_PATIENCE_SECONDS) as answer:
            return json.loads(answer.read())


def measured(
    ask: Callable[[str], Timed], *, words: int, repeats: int, seed: int | None = None
) -> Measured:
    """Return what prompts cost, cold and warm, by lines through the times of four lengths.

    Raises:
        ValueError: longer prompts take no longer, so that nothing can be said.
    """
    chance = random.Random(seed)
    # The first prompt of all pays for what a server sets up only once.
    ask(_prompt(chance, 32))
    cold, warm = [], []
    for _ in range(repeats):
        for size in (words // 8, words // 4, words // 2, words):
            prompt = _prompt(chance, size)
            cold.append(ask(prompt))
            warm.append(ask(prompt))
    slope = _slope(cold)
    if slope <= 0:
        raise ValueError("longer prompts took no longer; try more words, or an idle server")
    return Measured(tuple(cold), tuple(warm), slope, max(0.0, _slope(warm)))


def _prompt(chance: random.Random, words: int) -> str:
    """Return a prompt that nobody has sent before, from its first word on."""
    first = f"{chance.getrandbits(64):x}"
    return " ".join([first, *chance.choices(_WORDS, k=words)])


def _slope(found: Sequence[Timed]) -> float:
    """Return the seconds for each token more: the median over all pairs of lengths.

    One prompt that was slow for other reasons then changes little.
    """
    slopes = [
        (b.seconds - a.seconds) / (b.tokens - a.tokens)
        for a in found
        for b in found
        if b.tokens > a.tokens * 1.5
    ]
    if not slopes:
        raise ValueError("the server counts prompts of different lengths as equally long")
    return statistics.median(slopes)
