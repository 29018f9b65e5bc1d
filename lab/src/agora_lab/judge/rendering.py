"""Prompts and target messages as a model's own chat template writes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora.core.tokens import TokenCounter
from agora_lab.chats import text_of
from agora_lab.judge.calls import calls_of
from agora_lab.judge.schemas import as_text

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rendering:
    """Writes chats as a tokenizer's chat template does, with tool calls and schemas.

    A template that knows no tools gets them as text: the schemas at the end of the
    instructions, calls in the assistant's words, results in the user's.
    """

    tokenizer: Any

    @property
    def _knows_tools(self) -> bool:
        return "tools" in (self.tokenizer.chat_template or "")

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """Return the text up to where the assistant begins to speak."""
        return self._written(messages, tools, generate=True)

    def target(
        self,
        messages: Sequence[Message],
        message: Message,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Return what the assistant says in `message`, as it follows the prompt.

        The mark that ends the message is left out.
        """
        # After the same short prompt whatever the real one is: the target must not depend on it.
        opening = [one for one in messages[:1] if one.get("role") == "system"]
        opening.append({"role": "user", "content": ""})
        before = self._written(opening, tools, generate=True)
        whole = self._written([*opening, message], tools, generate=False)
        if not whole.startswith(before):
            raise ValueError("the chat template writes an assistant's message unlike its prompt")
        said = whole[len(before) :].rstrip("\n")
        end = str(self.tokenizer.eos_token or "")
        return said.removesuffix(end) if end else said

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text that holds the template's own marks."""
        found: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def pieces(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the tokens of a text, and where in it each of them begins and ends.

        A character of several tokens belongs to the last of them.
        """
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        spans = []
        start = 0
        for _, end in found["offset_mapping"]:
            spans.append((start, max(start, end)))
            start = max(start, end)
        # Of tokens that share a character the fast tokenizers give each the whole of it.
        for at in range(len(spans) - 1, 0, -1):
            if spans[at][0] == spans[at][1] and spans[at - 1][0] < spans[at - 1][1]:
                shared = found["offset_mapping"][at]
                if shared == found["offset_mapping"][at - 1]:
                    spans[at - 1], spans[at] = (spans[at - 1][0],) * 2, spans[at - 1]
        return list(found["input_ids"]), spans

    def _written(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generate: bool
    ) -> str:
        known = self._knows_tools
        written: str = self.tokenizer.apply_chat_template(
            _plain(messages) if known else _by_text(messages, tools),
            tools=list(tools) if tools and known else None,
            add_generation_prompt=generate,
            tokenize=False,
        )
        return written


def _plain(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages with text as content and arguments as values, as templates expect."""
    plain = []
    for message in messages:
        own: dict[str, Any] = {"role": message["role"], "content": text_of(message)}
        calls = calls_of(message)
        if calls:
            own["tool_calls"] = [
                {"type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in calls
            ]
        plain.append(own)
    return plain


def _by_text(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    plain: list[dict[str, str]] = []
    for message in messages:
        text = text_of(message)
        for call in calls_of(message):
            value = {"name": call.name, "arguments": call.arguments}
            called = f"<tool_call>\n{json.dumps(value, ensure_ascii=False)}\n</tool_call>"
            text = f"{text}\n{called}" if text else called
        role = str(message["role"])
        if role not in ("system", "user", "assistant"):
            role, text = "user", f"<tool_response>\n{text}\n</tool_response>"
        plain.append({"role": role, "content": text})
    if tools:
        if not plain or plain[0]["role"] != "system":
            plain.insert(0, {"role": "system", "content": ""})
        said = f"{plain[0]['content']}\n\n{as_text(tools)}".strip()
        plain[0] = {"role": "system", "content": said}
    return plain


@dataclass(frozen=True, slots=True)
class ModelTokens(TokenCounter):
    """Counts with a model's own tokenizer, and remembers what it counted."""

    tokenizer: Any
    _known: dict[str, int]

    @classmethod
    def of(cls, tokenizer: Any) -> "ModelTokens":
        """Return a counter that has counted nothing yet."""
        return cls(tokenizer, {})

    def count(self, text: str) -> int:
        """Return the number of tokens in a text."""
        found = self._known.get(text)
        if found is None:
            found = len(self.tokenizer(text, add_special_tokens=False)["input_ids"])
            self._known[text] = found
        return found
