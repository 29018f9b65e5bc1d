"""Prompts and target messages as a model's own chat template writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora.core.tokens import TokenCounter
from agora_lab.chats import text_of
from agora_lab.judge.calls import calls_of

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rendering:
    """Writes chats as a tokenizer's chat template does, with tool calls and schemas."""

    tokenizer: Any

    def prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """Return the text up to the assistant's turn."""
        return self._written(messages, tools, generate=True)

    def target(
        self,
        messages: Sequence[Message],
        message: Message,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Return the assistant's text of `message`, as it follows the prompt.

        The mark that ends the message is left out.
        """
        # Always after the same short prompt: the target must not depend on the real one.
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
        written: str = self.tokenizer.apply_chat_template(
            _plain(messages),
            tools=list(tools) or None,
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


@dataclass(frozen=True, slots=True)
class ModelTokens(TokenCounter):
    """Counts with a model's own tokenizer, and remembers the counts."""

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
