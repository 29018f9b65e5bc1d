"""Imports every module of the package, and tells what each one lacks. Runs in a clean environment.

Printed as JSON: how many modules there are, which extras are missing and for what, and what
failed in any other way. It needs nothing but the package.
"""

import importlib
import json
import pkgutil
import sys

import agora
from agora.errors import MissingExtraError

ROOT = "agora."
SKIPPED = ("agora.lab.methods.workers.",)
"""Run in environments of peers, never imported."""
COMMANDS = {"click", "rich"}
"""What the modules below `agora.cli` take for granted: its `main` says the sentence."""


def look() -> dict[str, object]:
    """Return what came of importing every module."""
    names = [
        module.name
        for module in pkgutil.walk_packages(agora.__path__, ROOT, onerror=lambda name: None)
        if not module.name.startswith(SKIPPED)
    ]
    missing: dict[str, list[str]] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except MissingExtraError as error:
            missing.setdefault(error.extra, []).append(name)
        except ImportError as error:
            if name.startswith("agora.cli.") and (error.name or "").partition(".")[0] in COMMANDS:
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
    json.dump({"first_call": first_call(), **look()}, sys.stdout)
