import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import DOCS


def maker(name: str) -> ModuleType:
    """Return a script of the documentation, as a module."""
    path = DOCS / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_the_reference_of_the_commands_is_what_the_commands_say() -> None:
    for extra in ("click", "rich", "aiohttp", "msgspec", "grpc"):
        pytest.importorskip(extra, reason="needs the extras cli, gateway and extproc")
    module = maker("make_cli.py")

    assert module.PRODUCT.read_text(encoding="utf-8") == module.product_page(), (
        "run: python docs/make_cli.py"
    )


def test_figures_pictures_and_install_lines_are_what_their_files_say() -> None:
    stale = [path.name for path, text in maker("make_pages.py").made() if text != read(path)]

    assert stale == [], "run: python docs/make_pages.py"


def test_one_switch_turns_install_lines_from_the_checkout_to_the_index() -> None:
    page = "Run `pip install .` first:\n\npip install '.[wrap]' './lab[judge]'   # in a checkout\n"

    assert maker("make_pages.py").install_lines(page) == (
        "Run `pip install agora-context` first:\n\n"
        "pip install 'agora-context[wrap]' 'agora-lab[judge]'\n"
    )


def test_the_whole_settings_file_of_the_page_is_one_that_agora_takes() -> None:
    settings = pytest.importorskip("agora.service.settings", exc_type=ImportError)
    page = read(DOCS / "reference" / "configuration.md")
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)

    assert settings.settings_from(tomllib.loads(example)).mode == "edit"


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
