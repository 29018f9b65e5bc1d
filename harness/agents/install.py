"""The agents, installed at their pinned versions into a folder of their own."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

from harness.agents.drivers import NODE, Package

INTERPRETER = "AGORA_AGENTS_PYTHON"
"""The environment variable that names a Python of 3.12 or later for the agents that need one."""
_LEAST = (3, 12)
_MOST_SECONDS = 900


class MissingInterpreterError(Exception):
    """No Python is recent enough for the agents from PyPI."""

    def __str__(self) -> str:
        least = ".".join(map(str, _LEAST))
        return f"no Python {least} or later was found; name one in {INTERPRETER}"


def install(packages: Iterable[Package], folder: Path) -> None:
    """Install what is missing, or there at another version; one command per package manager."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {package for package in packages if installed(package, folder) != package.version}
    npm = sorted(
        f"{package.name}@{package.version}" for package in wanted if package.source == "npm"
    )
    if npm:
        if installed(NODE, folder) != NODE.version:
            npm.append(f"{NODE.name}@{NODE.version}")
        home = folder / "npm"
        home.mkdir(exist_ok=True)
        quiet = ("--no-audit", "--no-fund", "--no-progress", "--loglevel=error", "--save-exact")
        _run(("npm", "install", "--prefix", str(home), *quiet, *npm))
    for package in sorted(wanted, key=lambda package: package.name):
        if package.source == "pypi":
            place = _venv(package, folder)
            _run((str(interpreter()), "-m", "venv", "--clear", str(place)))
            exact = f"{package.name}=={package.version}"
            _run((str(place / "bin/pip"), "install", "--quiet", exact, *package.more))


def installed(package: Package, folder: Path) -> str:
    """Return the version that is installed; empty where the package is not."""
    if package.source == "npm":
        path = folder / "npm" / "node_modules" / package.name / "package.json"
        return str(json.loads(path.read_text("utf-8"))["version"]) if path.is_file() else ""
    where = [str(path) for path in _venv(package, folder).glob("lib/python3*/site-packages")]
    found = distributions(name=package.name, path=where) if where else ()
    return next((one.version for one in found), "")


def programs(package: Package, folder: Path) -> tuple[Path, ...]:
    """Return the folders in which a package's programs are found, first to last."""
    if package.source == "pypi":
        return (_venv(package, folder) / "bin",)
    modules = folder / "npm" / "node_modules"
    return (modules / NODE.name / "bin", modules / ".bin")


def interpreter() -> Path:
    """Return a Python that is recent enough.

    Raises:
        MissingInterpreterError: there is none.
    """
    names = (os.environ.get(INTERPRETER, ""), "python3.14", "python3.13", "python3.12", "python3")
    for name in names:
        path = shutil.which(name) if name else None
        if path and _version(path) >= _LEAST:
            return Path(path)
    raise MissingInterpreterError


def _version(path: str) -> tuple[int, ...]:
    asked = (path, "-c", "import sys; print(*sys.version_info[:2])")
    found = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    return tuple(map(int, found.stdout.split())) if found.returncode == 0 else ()


def _venv(package: Package, folder: Path) -> Path:
    return folder / f"venv-{package.name}"


def _run(command: tuple[str, ...]) -> None:
    subprocess.run(command, check=True, timeout=_MOST_SECONDS)
