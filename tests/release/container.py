"""A Containerfile's steps, done in clean roots on this machine: no daemon, no registry.

    python -m tests.release.container FOLDER

Each stage gets a root of its own, in which this machine's Python stands for the base image and
nothing of the checkout is but what `COPY` brings. `RUN` runs in that root by `chroot`, in a mount
namespace; nothing stays mounted. It shows that the file builds what it says and that the result
runs. It does not show what differs in the base image: its Python, its C library.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
_OF_BASE = ("usr", "bin", "sbin", "lib", "lib64")
"""Folders of this machine that the base image has too."""
_ETC = ("resolv.conf", "hosts", "nsswitch.conf", "passwd", "group", "ld.so.cache", "pip.conf")
_WAY_OUT = (
    *("PIP_CERT", "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "SSL_CERT_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
"""Variables by which this machine gets packages."""


def instructions(text: str) -> Iterator[tuple[str, str]]:
    r"""Yield each instruction of a Containerfile with what follows it.

    >>> list(instructions("# x\nRUN a \\\n  && b\nUSER 1:1"))
    [('RUN', 'a && b'), ('USER', '1:1')]
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            yield word, " ".join(rest.split()) if word == "RUN" else rest.strip()


@dataclass
class Image:
    """A stage: its root, and what the file says of how to run in it."""

    root: Path
    work: str = "/"
    user: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    stop_signal: str = "SIGTERM"

    def runs(self, *arguments: str, writes: bool = False) -> list[str]:
        """Return a command of this machine that runs another in the root, as the image's user."""
        root = shlex.quote(str(self.root))
        script = [f"mount --bind {root} {root}", f"cd {root}"]
        folders = [f"/{name}" for name in _OF_BASE if not Path("/", name).is_symlink()]
        named = map(shlex.quote, (*filter(os.path.isdir, folders), *_python()))
        script += [f"mount --rbind -o ro {name} .{name}" for name in named]
        script += ["mount --rbind /dev dev", "mount --rbind /proc proc"]
        if not writes:
            script.append(f"mount -o remount,ro,bind {root}")
        # Without root there is one user to be.
        spec = ["--userspec", self.user] if self.user and os.geteuid() == 0 else []
        variables = [f"{name}={value}" for name, value in self.variables().items()]
        inside = ["env", "-i", "-C", self.work, *variables, *arguments]
        script.append("exec " + shlex.join(["chroot", *spec, str(self.root), *inside]))
        alone = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
        return [*alone, "sh", "-euc", "\n".join(script)]

    def variables(self) -> dict[str, str]:
        """Return the variables of a process in the image."""
        own = {"PATH": f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin", "HOME": "/root"}
        out = {n: v for n, v in os.environ.items() if n.upper().startswith(_WAY_OUT)}
        return own | out | self.environment


def build(folder: Path, *, file: Path = CONTAINERFILE, context: Path = ROOT) -> Image:
    """Do what a Containerfile says, each stage below `folder`, and return the last.

    Raises:
        CalledProcessError: a step failed.
        ValueError: there is an instruction that is not known here.
    """
    stages: dict[str, Image] = {}
    image: Image | None = None
    for word, rest in instructions(file.read_text(encoding="utf-8")):
        if word == "FROM":
            _, _, name = rest.partition(" AS ")
            image = stages[name or str(len(stages))] = Image(_base(folder / (name or "last")))
            continue
        if image is None:
            raise ValueError(f"{word} stands before FROM")
        _do(image, word, rest, stages, context)
    if image is None:
        raise ValueError(f"{file} has no FROM")
    return image


def _do(image: Image, word: str, rest: str, stages: dict[str, Image], context: Path) -> None:
    if word == "WORKDIR":
        image.work = rest
        _in(image.root, rest).mkdir(parents=True, exist_ok=True)
    elif word == "COPY":
        copy(image, shlex.split(rest), stages, context)
    elif word == "RUN":
        subprocess.run(image.runs("/bin/sh", "-c", rest, writes=True), check=True)
    elif word == "ENV":
        for one in shlex.split(rest):
            name, _, value = one.partition("=")
            before = image.variables()["PATH"]
            image.environment[name] = value.replace("$PATH", before)
    elif word == "USER":
        image.user = rest
    elif word == "STOPSIGNAL":
        image.stop_signal = rest
    elif word == "ENTRYPOINT":
        image.entrypoint = tuple(json.loads(rest))
    elif word == "CMD":
        image.command = tuple(json.loads(rest))
    elif word != "EXPOSE":
        raise ValueError(f"{word} is not known here")


def copy(
    image: Image, words: Sequence[str], stages: dict[str, Image], context: Path = ROOT
) -> None:
    """Copy files of the context, or of another stage, into an image."""
    source = context
    if words[0].startswith("--from="):
        source = stages[words[0].removeprefix("--from=")].root
        words = words[1:]
    *names, into = words
    target = _in(image.root, str(Path(image.work, into)))
    for name in names:
        found = source / name.lstrip("/")
        if found.is_dir():
            shutil.copytree(found, target, symlinks=True, dirs_exist_ok=True)
        else:
            to = target / found.name if into.endswith("/") else target
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, to)


def _python() -> list[str]:
    """Return where this Python is, if the folders of the base do not have it already."""
    return [] if sys.base_prefix.startswith("/usr") else [sys.base_prefix]


def _in(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _base(root: Path) -> Path:
    """Make a root in which this machine's programs will be mounted."""
    for name in ("dev", "proc", "tmp", "root", "etc"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in _OF_BASE:
        own = Path("/", name)
        if own.is_symlink():
            (root / name).symlink_to(own.readlink())
        elif own.is_dir():
            (root / name).mkdir()
    for path in _python():
        _in(root, path).mkdir(parents=True, exist_ok=True)
    for name in _ETC:
        if Path("/etc", name).is_file():
            shutil.copyfile(Path("/etc", name), root / "etc" / name)
    if Path("/etc/ssl/certs").is_dir():
        shutil.copytree("/etc/ssl/certs", root / "etc/ssl/certs", symlinks=False,
                        ignore_dangling_symlinks=True)  # fmt: skip
    return root


def main() -> None:
    """Build the image, and say how it would be run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    image = build(parser.parse_args().folder.resolve())
    sys.stdout.write(shlex.join(image.runs(*image.entrypoint, *image.command)) + "\n")


if __name__ == "__main__":
    main()
