"""The `agora train` command: train the paper's scorer on labels."""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

import agora
from agora import AgoraError
from agora_lab.cli.progress import phases


@click.command()
@click.argument(
    "files",
    nargs=-1,
    metavar="LABELS...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--encoder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder of the encoder: config.json, model.safetensors, tokenizer.json",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder to write the scorer to.",
)
@click.option(
    "--tokens",
    type=click.IntRange(8),
    default=512,
    show_default=True,
    metavar="N",
    help="Subwords of a pair that the encoder reads.",
)
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=700,
    show_default=True,
    metavar="N",
    help="Labels of each environment, where scripted agents make them.",
)
@click.option("--backbone", metavar="NAME", help="What the record calls the encoder.")
@click.option("--seed", type=int, default=42, show_default=True)
@click.option(
    "--bfloat16", is_flag=True, help="Train the encoder in bfloat16: faster with AMX, else slower."
)
def train(
    files: tuple[Path, ...],
    encoder: Path,
    out: Path,
    tokens: int,
    pairs: int,
    backbone: str | None,
    seed: int,
    bfloat16: bool,
) -> None:
    """Train a cross-encoder, the paper's scorer, on LABELS and write it as a scorer's folder.

    LABELS are files written by `agora label`. Without them the labels are made first:
    counterfactual, by scripted agents on training tasks of ALFWorld, ScienceWorld and WebShop.
    Training follows the paper's recipe. Use the result with
    `Compressor.paper(load_scorer("FOLDER"))`.
    """
    try:
        from agora_lab.labels import read_labels
        from agora_lab.train.cross_encoder import train_cross_encoder
        from agora_lab.train.lpft import Recipe

        with phases() as progress:
            files = files or _scripted_labels(out, pairs, seed, progress)
            result = train_cross_encoder(
                [label for file in files for label in read_labels(file)],
                encoder,
                Recipe(seed=seed, bfloat16=bfloat16),
                out=out,
                tokens=tokens,
                progress=progress,
                about={
                    "backbone": backbone or encoder.name,
                    "agora": agora.__version__,
                    "data": {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files},
                },
            )
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    _show(result.record)
    click.echo(f"Served scores are within {result.parity:.0e} of the trained ones.\nScorer: {out}")


def _scripted_labels(
    out: Path, pairs: int, seed: int, progress: Callable[[str, int, int], None]
) -> tuple[Path, ...]:
    """Make the labels of each environment with its scripted agent, unless they are there."""
    from agora_lab.label.scripted import ENVIRONMENTS, Settings, label_scripted
    from agora_lab.labels import write_labels

    files = tuple(out / f"labels-{name}-{pairs}-{seed}.parquet" for name in ENVIRONMENTS)
    for name, file in zip(ENVIRONMENTS, files, strict=True):
        if not file.exists():
            labels = label_scripted(
                name,
                Settings(pairs=pairs, seed=seed),
                progress=partial(progress, f"labels of {name}"),
            )
            write_labels(file, labels)
    return files


def _show(record: Mapping[str, Any]) -> None:
    """Print labels, backbone and AUC as a table."""
    from rich.console import Console
    from rich.table import Table

    from agora_lab.train.cross_encoder import ALL

    table = Table(title="AUC on held-out trajectories, with 95% intervals", title_justify="left")
    columns = ("labels of", "trajectories", "labels", "critical", *record["auc"][ALL])
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    counts = record["labels"]
    total = {name: sum(one[name] for one in counts.values()) for name in _COUNTS}
    for source, figures in record["auc"].items():
        shown = [
            f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]" for one in figures.values()
        ]
        table.add_row(source, *(f"{counts.get(source, total)[name]:,}" for name in _COUNTS), *shown)
    console = Console()
    console.print(table)
    console.print(
        f"Backbone: {record['backbone']}, {record['parameters'] / 1e6:.1f} M parameters "
        f"({record['encoder']}), {record['tokens']} tokens a pair."
    )


_COUNTS = ("trajectories", "pairs", "critical")
