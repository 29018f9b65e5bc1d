import ast
import importlib
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from agora.errors import MissingExtraError
from agora.scorers import write_bundle
from tests.docs.pages import Block, blocks, name_of, pages

EXCERPTS = {"docs/how-to/frameworks.md", "docs/how-to/litellm.md"}
"""Their blocks are parts of the programs in `examples/integrations`, which have tests of their own.
Here they only have to be Python, and the names that they import from this package have to exist."""


def with_python(*, excerpts: bool) -> list[Path]:
    return [
        page
        for page in pages()
        if (name_of(page) in EXCERPTS) == excerpts
        and any(block.language == "python" for block in blocks(page))
    ]


@pytest.mark.parametrize("page", with_python(excerpts=False), ids=name_of)
def test_every_python_block_of_a_page_runs_after_those_before_it(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The folder that a command earlier on the page has written.
    write_bundle(Path("scorer"), scorer="cross_encoder", files={})
    space: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        if block.language == "python" and block.run:
            run(block, page, space)


def run(block: Block, page: Path, space: dict[str, Any]) -> None:
    # Blank lines before it, so that an error names the line of the page.
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    try:
        exec(code, space)  # noqa: S102 - the project's own pages
    except MissingExtraError as error:
        pytest.skip(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"agora", "tests"}:
            raise
        pytest.skip(f"{error.name} is not installed")
    for name, value in list(space.items()):
        if name.startswith("test_") and callable(value):
            value()
            del space[name]


@pytest.mark.parametrize("page", with_python(excerpts=True), ids=name_of)
def test_an_excerpt_is_python_and_imports_only_names_that_exist(page: Path) -> None:
    for block in blocks(page):
        if block.language != "python" or not block.run:
            continue
        # Compiled, not run: it may await, and it may call a provider.
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
        tree = compile("\n" * (block.line - 1) + block.text, str(page), "exec", flags)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agora"):
                check_names(node)


def check_names(node: ast.ImportFrom) -> None:
    try:
        module = importlib.import_module(node.module or "")
    except MissingExtraError:
        return
    for alias in node.names:
        assert hasattr(module, alias.name), f"line {node.lineno}: {node.module} has no {alias.name}"


def commands() -> list[tuple[str, str]]:
    """Return each line of a shell block that runs `agora`, with its page."""
    lines_of_pages = []
    for page in pages():
        for block in blocks(page):
            if block.language in {"sh", "bash", "shell"} and block.run:
                lines = block.text.replace("\\\n", " ").splitlines()
                lines_of_pages += [(name_of(page), line) for line in lines if "agora " in line]
    return [(page, line) for page, line in lines_of_pages if _of_agora(line)]


def _of_agora(line: str) -> list[str]:
    """Return the arguments of `agora` on a line that runs it."""
    words = shlex.split(line, comments=True)
    while words and "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]
    return words[1:] if words and words[0] == "agora" else []


@pytest.mark.parametrize(("page", "line"), commands())
def test_every_command_in_the_pages_exists_with_its_options(page: str, line: str) -> None:
    from tests.command import program as group

    words = _of_agora(line)
    words = words[
        : next((i for i, w in enumerate(words) if w in {"|", ">", "&&", "--"}), len(words))
    ]
    command: click.Command = group
    context = click.Context(group)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        try:
            below = command.get_command(context, words[0])
        except click.ClickException as error:
            pytest.skip(error.message)
        assert below is not None, f"{page}: there is no {' '.join(words)}"
        command, words = below, words[1:]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known | {"--help", "--version"}, f"{page}: {word}"


def test_blocks_are_found_with_their_lines(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n```python\nx = 1\n```\n<!-- not run: no key -->\n\n```sh\nls\n```\n")

    assert blocks(page) == [
        Block("python", "x = 1\n", 3, run=True),
        Block("sh", "ls\n", 8, run=False),
    ]
