"""Writes `docs/cli/`: a page for each command, from what the commands say of themselves.

Run with all extras and the lab installed: python docs/make_cli.py
"""

from collections.abc import Iterable, Iterator
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent

import click

from agora.cli.group import WORDS, agora

FOLDER = Path(__file__).with_name("cli")
_WIDTH = 88
_HABITS = """## Figures for programs

Commands that print figures write them as JSON with `--json FILE`, or `--json -` for standard
output. The text for people then goes to standard error. `agora doctor --json` takes no file.

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
```""".splitlines()
"""What holds for all commands."""


def pages(names: Iterable[str] | None = None) -> dict[str, str]:
    """Return the text of each page by its file name: of `names`, or of every installed command."""
    context = _context(agora, None, "agora")
    found = {"index.md": _index()}
    for name in agora.list_commands(context) if names is None else names:
        command = agora.get_command(context, name)
        assert command is not None  # noqa: S101 - it is on the list
        found[f"{name}.md"] = "\n".join(_page(command, context, name)) + "\n"
    return found


def _index() -> str:
    lines = ["# Commands", "", _prose(agora.help or ""), "", "```sh"]
    lines += ["pip install '.[cli]'     # in a checkout", "agora --help", "```", ""]
    lines += ["| command | what it does |", "|---|---|"]
    for name, words in sorted(WORDS.items()):
        lines.append(f"| [`agora {name}`]({name}.md) | {_cell(words)} |")
    lines += ["", "`lab`, `label`, `scorer` and `train` come with the lab: `pip install . ./lab`."]
    lines += ["", *_HABITS]
    lines += ["", "Made from the commands themselves by `docs/make_cli.py`; a test compares them."]
    return "\n".join(lines) + "\n"


def _page(command: click.Command, parent: click.Context, name: str) -> Iterator[str]:
    yield f"# agora {name}"
    yield ""
    yield from _section(command, parent, name)
    yield from _below(command, parent, name, f"agora {name}")


def _below(command: click.Command, parent: click.Context, name: str, words: str) -> Iterator[str]:
    """Yield the sections of a group's commands, and of theirs if they are groups."""
    if isinstance(command, click.Group):
        context = _context(command, parent, name)
        for sub in command.list_commands(context):
            below = command.get_command(context, sub)
            assert below is not None  # noqa: S101 - it is on the list
            yield ""
            yield f"## {words} {sub}"
            yield ""
            yield from _section(below, context, sub)
            yield from _below(below, context, sub, f"{words} {sub}")


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
        yield ""
        yield "| option | what it does |"
        yield "|---|---|"
        yield from (f"| `{_names(names)}` | {_cell(words)} |" for names, words in records)


def _context(command: click.Command, parent: click.Context | None, name: str) -> click.Context:
    settings = {"terminal_width": _WIDTH, "help_option_names": ["-h", "--help"]}
    return click.Context(command, parent=parent, info_name=name, **settings)  # type: ignore[arg-type]


def _prose(text: str) -> str:
    """Return help text as Markdown: its lines run on, its paragraphs and examples stay."""
    return "\n\n".join(map(_paragraph, cleandoc(text).split("\n\n")))


def _paragraph(text: str) -> str:
    if text.startswith("\b\n"):
        return f"```text\n{dedent(text.removeprefix(chr(8)).strip(chr(10)))}\n```"
    return _plain(" ".join(text.split()))


def _plain(text: str) -> str:
    """Return text whose brackets are not read as a link or as HTML; code stays as it is."""
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
    """Write the pages, and take away those of commands that are gone."""
    FOLDER.mkdir(exist_ok=True)
    written = pages()
    for old in FOLDER.glob("*.md"):
        if old.name != "index.md" and old.stem not in WORDS:
            old.unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
