"""How large the repository is: lines of Python, words of documentation, tracked files.

python -m benchmarks.sizes                     the working tree
python -m benchmarks.sizes --ref v0.4.0        a commit beside it
"""

import argparse
import io
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = {
    "src/agora": ("src/agora/",),
    "lab source": ("lab/src/",),
    "lab benchmarks + harness": ("lab/benchmarks/", "lab/harness/"),
    "lab tests": ("lab/tests/",),
    "benchmarks + harness": ("benchmarks/", "harness/"),
    "tests": ("tests/",),
}


def working_tree() -> Iterable[tuple[str, bytes]]:
    """Yield path and content of each tracked file that is there."""
    for name in _git("ls-files", "-z").decode().split("\0"):
        path = ROOT / name
        if name and path.is_file():
            yield name, path.read_bytes()


def commit(ref: str) -> Iterable[tuple[str, bytes]]:
    """Yield path and content of each file of a commit."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", ref))) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file.read()


def measure(files: Iterable[tuple[str, bytes]]) -> Counter[str]:
    """Return the sizes by name, in the order in which they are printed."""
    packages: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    words = tracked = size = 0
    for name, content in files:
        tracked, size = tracked + 1, size + len(content)
        if name.startswith("docs/") and name.endswith(".md"):
            words += len(content.decode("utf-8", "replace").split())
        if not name.endswith(".py"):
            continue
        lines = content.count(b"\n")
        for part, folders in PARTS.items():
            parts[part] += lines if name.startswith(folders) else 0
        if name.startswith("src/agora/"):
            package, inside, _ = name.removeprefix("src/agora/").partition("/")
            packages[f"  {package if inside else '(top level)'}"] += lines
    sizes = Counter({"src/agora": parts["src/agora"]})
    sizes.update(dict(sorted(packages.items())))
    sizes.update({part: parts[part] for part in PARTS if part != "src/agora"})
    sizes.update({"docs, words of Markdown": words, "tracked files": tracked})
    sizes["tracked kB"] = size // 1000
    return sizes


def _git(*arguments: str) -> bytes:
    return subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, check=True).stdout


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ref", help="a tag or commit to print beside the working tree")
    ref = parser.parse_args().ref
    columns = {ref: measure(commit(ref))} if ref else {}
    columns["working tree"] = measure(working_tree())
    names = list(dict.fromkeys(name for sizes in columns.values() for name in sizes))
    names.sort(key=lambda name: not name.startswith(("src", "  ")))
    width = max(14, *map(len, columns)) + 2
    print(" " * 28 + "".join(f"{title:>{width}}" for title in columns))
    for name in names:
        print(f"{name:28}" + "".join(f"{sizes[name]:>{width},}" for sizes in columns.values()))


if __name__ == "__main__":
    main()
