"""What a wire format calls its parts stands in the file of the format, and nowhere else."""

import ast
from collections.abc import Iterator
from pathlib import Path

import agora

SOURCE = Path(agora.__file__).parent
WORDS = {
    *("tool_calls", "tool_call_id", "function_call", "reasoning_content", "reasoning_details"),
    *("tool_use", "tool_result", "tool_use_id", "server_tool_use", "redacted_thinking"),
    *("toolUse", "toolResult", "toolUseId", "reasoningContent", "toolSpec", "toolConfig"),
    *("functionCall", "functionResponse", "function_response", "functionDeclarations"),
    *("function_call_output", "custom_tool_call", "local_shell_call", "encrypted_content"),
    *("thoughtSignature", "thought_signature", "input_schema", "inputSchema"),
    *("prompt_tokens_details", "prompt_cache_hit_tokens", "cache_creation_input_tokens"),
    *("cache_control", "cachePoint", "prompt_cache_breakpoint"),
}
ALLOWED = {
    "formats": "the place for it",
    "logs/kinds": "files of other programs, in shapes of their own",
    "logs/chat.py": "the same: messages as tracing programs write them",
    "integrations": "objects of a framework, written as messages",
    "service/openings.py": "looks for words in bytes before anything is decoded",
    "wrapping/status.py": "usage as Claude Code hands it to a status line",
}


def test_no_other_module_knows_how_a_wire_format_calls_its_parts() -> None:
    strangers = {
        f"{path.relative_to(SOURCE)}: {word}"
        for path in SOURCE.rglob("*.py")
        if not str(path.relative_to(SOURCE)).startswith(tuple(ALLOWED))
        for word in words_of(path)
    }

    assert not strangers


def words_of(path: Path) -> Iterator[str]:
    """Yield the words of wire formats among a module's strings, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in prose:
            value = node.value
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            if isinstance(text, str) and text.strip('"') in WORDS:
                yield text
