"""Writes the reference of the commands from their own help texts.

    python docs/make_cli.py

`docs/reference/cli.md` has the product's commands, `lab/docs/cli.md` the lab's. A page is written
where all its commands are installed.
"""

from collections.abc import Iterable, Iterator
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent

import click

from agora.cli.group import WORDS, agora

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ROOT / "docs" / "reference" / "cli.md"
LAB = ROOT / "lab" / "docs" / "cli.md"
LAB_COMMANDS = ("lab", "label", "train")
_WIDTH = 88
_FOR_PROGRAMS = """## Output for programs

Commands that print figures write them as JSON with `--json FILE`, or to standard output with `--json -`. The text for people then goes to standard error. `agora doctor --json` takes no file.

```sh
agora explain request.json --json - | jq '.tokens_before, .tokens_after'
agora replay logs/ --json replay.json
```

## Completion in the shell

Add one line for your shell:

```sh
eval "$(_AGORA_COMPLETE=bash_source agora)"          # in ~/.bashrc
eval "$(_AGORA_COMPLETE=zsh_source agora)"           # in ~/.zshrc
_AGORA_COMPLETE=fish_source agora | source           # in ~/.config/fish/config.fish
```

*Generated from the commands by `docs/make_cli.py`.*"""  # noqa: E501 - Markdown


def product_page() -> str:
    """Return the reference of the product's commands."""
    names = [name for name in sorted(WORDS) if name not in LAB_COMMANDS]
    intro = "Every command prints its help with `--help`."
    lab = "`lab`, `label` and `train` come with the distribution `agora-lab`."
    return _document("Commands", f"{intro} {lab}", names, _FOR_PROGRAMS)


def lab_page() -> str:
    """Return the reference of the lab's commands, which have to be installed."""
    intro = "The commands that `agora-lab` adds to `agora`."
    made = "*Generated from the commands by `docs/make_cli.py`.*"
    return _document("Commands of the lab", intro, LAB_COMMANDS, made)


def _document(title: str, intro: str, names: Iterable[str], end: str) -> str:
    context = _context(agora, None, "agora")
    lines = [f"# {title}", "", intro, "", "| command | what it does |", "|---|---|"]
    lines += [f"| [`agora {name}`](#agora-{name}) | {_cell(WORDS[name])} |" for name in names]
    for name in names:
        command = agora.get_command(context, name)
        assert command is not None  # noqa: S101 - it is on the list
        lines += ["", f"## agora {name}", "", *_section(command, context, name)]
        lines += _subcommands(command, context, name, f"agora {name}")
    return "\n".join([*lines, "", end]) + "\n"


def _subcommands(
    command: click.Command, parent: click.Context, name: str, path: str
) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = _context(command, parent, name)
        for sub in command.list_commands(context):
            below = command.get_command(context, sub)
            assert below is not None  # noqa: S101 - it is on the list
            yield from ("", f"### {path} {sub}", "")
            yield from _section(below, context, sub)
            yield from _subcommands(below, context, sub, f"{path} {sub}")


def _section(command: click.Command, parent: click.Context, name: str) -> Iterator[str]:
    context = _context(command, parent, name)
    yield "```text"
    yield from command.get_usage(context).removeprefix("Usage: ").splitlines()
    yield "```"
    yield ""
    yield _prose(command.help or "")
    options = [
        option
        for option in command.params
        if isinstance(option, click.Option) and not option.is_eager
    ]
    records = [record for option in options if (record := option.get_help_record(context))]
    if records:
        yield from ("", "| option | what it does |", "|---|---|")
        yield from (f"| `{_names(names)}` | {_cell(words)} |" for names, words in records)


def _context(command: click.Command, parent: click.Context | None, name: str) -> click.Context:
    settings = {"terminal_width": _WIDTH, "help_option_names": ["-h", "--help"]}
    return click.Context(command, parent=parent, info_name=name, **settings)  # type: ignore[arg-type]


def _prose(text: str) -> str:
    """Return help text as Markdown: lines are joined, paragraphs and examples stay."""
    return "\n\n".join(map(_paragraph, cleandoc(text).split("\n\n")))


def _paragraph(text: str) -> str:
    if text.startswith("\b\n"):
        return f"```text\n{dedent(text.removeprefix(chr(8)).strip(chr(10)))}\n```"
    return _plain(" ".join(text.split()))


def _plain(text: str) -> str:
    """Escape brackets outside of code, which Markdown would read as a link or as HTML."""
    parts = text.split("`")
    parts[::2] = [
        part.replace("<", "&lt;").replace("[", "\\[").replace("]", "\\]") for part in parts[::2]
    ]
    return "`".join(parts)


def _names(text: str) -> str:
    """Return an option's names and values without a bar, which would end the cell."""
    return text.replace("|", ", ")


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")


def main() -> None:
    """Write both pages, or say which extra a page lacks."""
    for path, page in ((PRODUCT, product_page), (LAB, lab_page)):
        try:
            path.write_text(page(), encoding="utf-8")
        except click.ClickException as error:
            click.echo(f"{path.relative_to(ROOT)} stays: {error.message}", err=True)


if __name__ == "__main__":
    main()
