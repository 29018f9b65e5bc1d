"""Imports every module of the package in FOLDER and prints what is wrong with it.

    python -I -S import_all.py FOLDER

`-S` hides everything that is installed, so each module has to load on the standard library alone,
or to name the extra that it lacks. Run by `test_wheel.py`.
"""

import importlib
import json
import pkgutil
import sys

TAKEN_FOR_GRANTED = {"cli": ("click", "rich"), "extproc": ("aiohttp",), "wrapping": ("msgspec",)}
"""What modules inside these packages import unguarded; their entry points name the extra."""


def problems_of(folder: str) -> list[str]:
    """Import every module of the package in a folder, and compress once."""
    sys.path.insert(0, folder)
    agora = importlib.import_module("agora")
    missing_extra = importlib.import_module("agora.errors").MissingExtraError
    problems = []
    for module in pkgutil.walk_packages(agora.__path__, "agora.", onerror=lambda name: None):
        try:
            importlib.import_module(module.name)
        except missing_extra:
            pass
        except ImportError as error:
            if error.name not in TAKEN_FOR_GRANTED.get(module.name.split(".")[1], ()):
                problems.append(f"{module.name}: {error}")
    text = "[USER] Find it. " + "[ASSISTANT] open [USER] shut it is, and dusty. " * 40
    if not agora.Compressor(edits="every_call", strict=True).compress(text).changed:
        problems.append("the first call was not compressed")
    return problems


if __name__ == "__main__":
    sys.stdout.write(json.dumps(problems_of(sys.argv[1])))
