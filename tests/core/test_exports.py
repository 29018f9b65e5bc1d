"""What modules say they offer is there."""

import importlib
import pkgutil

import pytest

import agora

MODULES = sorted(
    module.name
    for package in ("agora.core", "agora.adapters")
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
)


@pytest.mark.parametrize("name", ["agora", "agora.core", "agora.adapters", *MODULES])
def test_every_name_that_a_module_offers_is_there(name: str) -> None:
    module = importlib.import_module(name)
    missing = [one for one in getattr(module, "__all__", ()) if not hasattr(module, one)]
    assert not missing


def test_the_package_offers_something() -> None:
    assert agora.__all__
