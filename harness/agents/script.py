"""The fake model's next action: it reads one file after the other with the offered tools."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Schemas = Mapping[str, Any]
"""The JSON schemas of the tools that an agent offers, by name."""
DONE = "All files are read, and the work is done."
_SHELLS = ("bash", "run_shell_command", "execute_bash", "terminal")
_PATHS = ("file_path", "filePath", "absolute_path", "path")
_FILLED = {"description": "look at a file", "summary": "look at a file", "security_risk": "LOW"}
"""Arguments that some shells ask for besides the command."""
_SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The text that tells mini-swe-agent that the work is done."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and its arguments; text where the tool takes no JSON."""

    tool: str
    arguments: dict[str, Any] | str


@dataclass(frozen=True, slots=True)
class Turn:
    """The model's text and calls at one step."""

    text: str
    calls: tuple[Call, ...] = ()


def next_turn(step: int, steps: int, files: Sequence[Path], tools: Schemas) -> Turn:
    """Return the turn at a step, counted from 0; from `steps` on the work is done.

    Most steps read a file. Every seventh searches one and every eleventh changes one, with the
    shell if there is one; every fifth reads two files at once.
    """
    if step >= steps:
        final = _shell(tools, _SUBMIT) if set(tools) == {"bash"} else None
        return Turn(DONE, (final,) if final is not None else ())
    path = files[step % len(files)]
    text = f"Step {step + 1}: I will look at {path.name} next."
    if step % 11 == 8 and (call := _shell(tools, _change(path, step))):
        return Turn(text, (call,))
    if step % 7 == 3 and (call := _shell(tools, _search(path))):
        return Turn(text, (call,))
    paths = (path, files[(step + 17) % len(files)]) if step % 5 == 2 else (path,)
    calls = tuple(call for one in paths if (call := _read(tools, one)))
    return Turn(text, calls)


def _search(path: Path) -> str:
    name = shlex.quote(str(path))
    return f"grep -n 'def ' {name} | head -80; wc -l {name}"


def _change(path: Path, step: int) -> str:
    name = shlex.quote(str(path))
    return f"echo '# touched {step}' >> {name} && python3 -m py_compile {name} && git diff --stat"


def _read(tools: Schemas, path: Path) -> Call | None:
    for name in tools:
        if name.lower() in ("read", "read_file"):
            known = (tools[name] or {}).get("properties", {})
            argument = next((a for a in _PATHS if a in known), None)
            if argument is not None:
                return Call(name, {argument: str(path)})
    return _shell(tools, f"cat {shlex.quote(str(path))}")


def _shell(tools: Schemas, command: str) -> Call | None:
    if "exec_command" in tools:
        return Call("exec_command", {"cmd": command})
    if "shell_command" in tools:
        return Call("shell_command", {"command": command})
    if "shell" in tools:
        return Call("shell", {"command": ["bash", "-lc", command]})
    if "exec" in tools:
        # Codex' code mode: a tool that takes a program.
        asked = json.dumps({"cmd": command})
        return Call("exec", f"const r = await tools.exec_command({asked}); text(r.output);")
    for name in tools:
        if name.lower() in _SHELLS:
            schema = tools[name] or {}
            known, needed = schema.get("properties", {}), schema.get("required", [])
            filled = {
                key: value
                for key, value in _FILLED.items()
                if key in needed or (key == "description" and key in known)
            }
            return Call(name, {"command": command, **filled})
    return None
