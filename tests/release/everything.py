"""Imports every module of a package, and tells what each one lacks. Runs in a clean environment.

Printed as JSON: how many modules there are, which extras are missing and for what, and what
failed in any other way. It needs nothing but the package.
"""

import importlib
import json
import pkgutil
import sys

import agora
from agora.errors import MissingExtraError

COMMANDS = {"click", "rich"}
"""What the modules below a `cli` take for granted: `agora.cli`'s `main` says the sentence."""
WORKERS = "agora_lab.methods.workers."
"""Programs that run inside the environments of the packages they speak for, and only there."""


def look(package: str) -> dict[str, object]:
    """Return what came of importing every module of a package."""
    path = importlib.import_module(package).__path__
    names = [
        module.name
        for module in pkgutil.walk_packages(path, f"{package}.", onerror=lambda name: None)
        if not module.name.startswith(WORKERS)
    ]
    missing: dict[str, list[str]] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except MissingExtraError as error:
            missing.setdefault(error.extra, []).append(name)
        except ImportError as error:
            if (
                name.startswith(f"{package}.cli.")
                and (error.name or "").partition(".")[0] in COMMANDS
            ):
                missing.setdefault("cli", []).append(name)
            else:
                failed[name] = f"{type(error).__name__}: {error}"
    return {"modules": len(names), "missing": missing, "failed": failed}


def first_call() -> str:
    """Return what a first compressed call says."""
    text = "[USER] Find it. " + "[ASSISTANT] open [USER] shut it is, and dusty. " * 40
    compressor = agora.Compressor(scorer=agora.load_scorer(), schedule="every_call", strict=True)
    compression = compressor.compress(text)
    if not compression.changed:
        raise SystemExit("the first call was not compressed")
    return compression.summary()


if __name__ == "__main__":
    json.dump({"first_call": first_call(), **look(sys.argv[1])}, sys.stdout)
