import importlib.util
import sys
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
    spec.loader.exec_module(module)
    return module


def test_the_reference_of_the_commands_is_what_the_commands_say() -> None:
    for extra in ("click", "rich", "aiohttp", "msgspec", "grpc"):
        pytest.importorskip(extra, reason="needs the extras cli, gateway and extproc")
    module = maker("make_cli.py")

    assert module.PRODUCT.read_text(encoding="utf-8") == module.product_page(), (
        "run: python docs/make_cli.py"
    )


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
