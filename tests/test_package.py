import subprocess
import sys

FOREIGN = """
import sys
before = set(sys.modules)
import agora
print(" ".join(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""
QUIET = """
import sys
doors = ("open", "socket", "subprocess", "os.listdir", "os.scandir", "os.putenv", "urllib")
import json, logging, re, unicodedata, zlib, importlib.resources, tomllib, concurrent.futures
touched = []
def watch(event, arguments):
    if event.startswith(doors):
        touched.append((event, str(arguments)[:200]))
import importlib, pkgutil
sys.addaudithook(watch)
import agora
agora.compress([{"role": "user", "content": "hi"}], model="gpt-4o")
for event, what in touched:
    if ".py" not in what and "site-packages" not in what and "agora" not in what:
        print(event, what)
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_importing_agora_loads_nothing_but_the_standard_library() -> None:
    loaded = set(run(FOREIGN).split())

    assert "agora" in loaded
    assert loaded - {"agora"} <= set(sys.stdlib_module_names)


def test_importing_and_compressing_open_nothing_but_the_packages_own_files() -> None:
    assert run(QUIET) == ""
