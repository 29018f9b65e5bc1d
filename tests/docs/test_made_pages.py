import html
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from agora.cli.group import WORDS
from tests.docs.pages import DOCS


def maker(name: str) -> ModuleType:
    """Return a script of the documentation, as a module."""
    path = DOCS / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_of_the_commands_are_what_the_commands_say() -> None:
    for extra in ("click", "rich", "aiohttp", "msgspec"):
        pytest.importorskip(extra, reason="needs the extras cli and gateway")
    made = maker("make_cli.py").pages()

    written = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "cli").glob("*.md")}
    known = {"index.md", *(f"{name}.md" for name in WORDS)}
    assert written.keys() == known >= made.keys(), "run: python docs/make_cli.py"
    for name, text in made.items():
        assert written[name] == text, f"docs/cli/{name}: run: python docs/make_cli.py"


def test_the_figures_of_the_concepts_are_what_the_package_does() -> None:
    for name, text in maker("images/make_concepts.py").figures().items():
        drawn = (DOCS / "concepts" / name).read_text(encoding="utf-8")
        assert drawn == text, f"{name}: run: python docs/images/make_concepts.py"


def test_the_drawing_of_the_house_is_what_the_imports_say() -> None:
    made = maker("images/make_house.py")
    if not made.LAB.is_dir():
        pytest.skip("the lab is not here: this is the source of agora-context alone")
    drawn = (DOCS / "images" / "house.svg").read_text(encoding="utf-8")

    assert made.packages(made.PRODUCT).keys() == made.WORDS.keys()
    assert all(upper > lower for upper, lower in made.floors_of_imports())
    assert drawn == made.picture(), "run: python docs/images/make_house.py"


def test_the_page_of_results_is_what_the_run_files_hold() -> None:
    text = (DOCS / "results.md").read_text(encoding="utf-8")

    assert text == maker("make_results.py").page(), "run: python docs/make_results.py"


def test_the_readme_has_the_table_against_peers_as_it_was_measured() -> None:
    readme = Path(DOCS.parent, "README.md").read_text(encoding="utf-8")

    table = "\n".join(maker("make_results.py").peers_in_short())
    assert f"<!-- peers -->\n{table}\n<!-- /peers -->" in readme, "run: python docs/make_results.py"


def test_the_badges_say_what_the_project_says() -> None:
    for name, text in maker("images/make_badges.py").badges().items():
        drawn = (DOCS / "images" / name).read_text(encoding="utf-8")
        assert drawn == text, f"{name}: run: python docs/images/make_badges.py"


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("demo", "37 steps"),
        ("explain", "37 steps"),
        ("replay", "37 steps"),
        ("top", "net saving"),
        ("wrap", "less than without"),
    ],
)
def test_a_picture_of_a_terminal_shows_its_command_and_fetches_nothing(
    name: str, shows: str
) -> None:
    pytest.importorskip("rich", reason="needs the extra cli")
    command = maker("images/make_terminal.py").COMMANDS.get(name, f"agora {name} ")
    light, dark = (
        (DOCS / "images" / f"terminal-{name}-{shade}.svg").read_text(encoding="utf-8")
        for shade in ("light", "dark")
    )

    shown = said_in(light)
    assert shown == said_in(dark)
    assert shown.startswith(f"$ {command}")
    assert shows in " ".join(shown.split())
    for svg in (light, dark):
        assert "@font-face" not in svg
        assert re.findall(r"https?://(?!www\.w3\.org|127\.0\.0\.1)", svg) == []


def said_in(svg: str) -> str:
    """Return the text of a picture of a terminal, line by line."""
    lines: dict[str, str] = {}
    for line, part in re.findall(
        r'<text [^>]*clip-path="url\(#([^)]+)\)"[^>]*>([^<]*)</text>', svg
    ):
        lines[line] = lines.get(line, "") + part
    return "\n".join(html.unescape(text).replace("\xa0", " ").rstrip() for text in lines.values())


def test_doctests_are_fenced_and_everything_else_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("griffe")
    fake.Extension = object  # type: ignore[attr-defined]
    fake.Object = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "griffe", fake)
    fenced = maker("doctests.py").fenced

    assert fenced("Return it.\n\n>>> f(1)\n2\n\nMore.") == (
        "Return it.\n\n```pycon\n>>> f(1)\n2\n```\n\nMore."
    )
    assert fenced("Return it.\n>>> f(1)\n2") == "Return it.\n\n```pycon\n>>> f(1)\n2\n```"
    assert fenced("Nothing to run.") == "Nothing to run."


def test_every_picture_in_the_documentation_is_shown_somewhere() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    texts += Path(DOCS.parent, "README.md").read_text(encoding="utf-8")
    pictures = [path for kind in ("svg", "png") for path in DOCS.rglob(f"*.{kind}")]
    spare = {"explain.svg", "explain-page-dark.png", "replay-dark.png", "replay-phone.png"}

    assert [
        path.name for path in pictures if path.name not in texts and path.name not in spare
    ] == []
