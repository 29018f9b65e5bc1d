"""The base of formats whose prompt is a list of messages."""

from collections.abc import Mapping
from typing import ClassVar

from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.request import Request
from agora.core.tokens import FILE_TOKENS, IMAGE_TOKENS, EstimatedTokens, TokenCounter
from agora.formats.base import (
    Format,
    Message,
    MessageRole,
    Parsed,
    ParsedMessage,
    Rendered,
    is_text,
    texts_of,
    to_json,
)
from agora.formats.render import render_messages
from agora.formats.steps import StepBuilder

MEDIA_TOKENS: Mapping[str, int] = {
    **dict.fromkeys(("image", "image_url", "input_image", "computer_screenshot"), IMAGE_TOKENS),
    **dict.fromkeys(("document", "input_audio", "file", "input_file"), FILE_TOKENS),
}
"""The assumed cost of a part, by its type."""


class MessageFormat(Format):
    """Reads one message at a time; a subclass says how, and how text gets into a message."""

    splits_turns: ClassVar[bool] = False
    """True if each message of the agent is an answer of its own."""
    keeps_signed: ClassVar[bool] = False
    """True if the messages of a step must stay once the model's thinking is signed."""

    def read_message(self, message: Message, position: int, counter: TokenCounter) -> ParsedMessage:
        """Return one message as the format reads it."""
        raise NotImplementedError

    def system_text(self, system: object) -> str:
        """Return the text of the system prompt beside the messages."""
        return system if isinstance(system, str) else texts_of(system)

    def text_of(self, message: Message) -> str:
        parsed = self.read_message(message, 0, EstimatedTokens())
        calls = [f"{call.name} {call.arguments}" for _, call in parsed.calls]
        return "\n".join(filter(None, (parsed.thought, parsed.text, parsed.user_text, *calls)))

    def accepts_marker(self, message: Message) -> bool:
        """Return True for a user message or a result with room for text."""
        raise NotImplementedError

    def is_user_text(self, message: Message) -> bool:
        """Return True if text appended to this message is among the user's words."""
        return message.get("role") == "user"

    def append_text(self, message: Message, text: str) -> Message:
        """Return the message with `text` after its own content."""
        raise NotImplementedError

    def result_count(self, message: Message) -> int:
        """Return the number of results in a message; 1 where all of it is one."""
        return 1

    def replace_results(self, message: Message, notes: list[str]) -> Message:
        """Return the message with each of its results replaced by a note."""
        raise NotImplementedError

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        """Return the trajectory in the messages."""
        builder = self.builder(request, counter)
        messages = [
            self.read_message(message, position, counter)
            for position, message in enumerate(request.messages)
        ]
        newest_summary = max([n for n, one in enumerate(messages) if one.summary], default=0)
        for message in messages[:newest_summary]:
            builder.add(_left_out(message))
        for message in messages[newest_summary:]:
            builder.add(message)
        return builder.parsed(request)

    def builder(self, request: Request, counter: TokenCounter) -> StepBuilder:
        """Return a builder for the messages of a request."""
        system = self.system_text(request.system)
        fixed = counter.count(to_json(request.tools)) if request.tools else 0
        return StepBuilder(
            fixed_tokens=fixed + counter.count(system),
            observations=request.observations,
            system=system,
            keep_messages=self.keeps_signed and not request.is_bound and bool(request.thinking),
            split_turns=self.splits_turns,
            bound=request.is_bound,
        )

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the messages without the removed steps."""
        return render_messages(parsed, forms, markers, self)


def _left_out(message: ParsedMessage) -> ParsedMessage:
    """Return a message before the newest summary: the provider leaves it out of the prompt."""
    by_user = message.role is MessageRole.USER
    role = MessageRole.USER if by_user else MessageRole.SYSTEM
    return ParsedMessage(role, 0, message.text)


def message_of_user(
    blocks: list[Message],
    results: list[tuple[str, bool]],
    answers: tuple[str, ...],
    tokens: int,
    user_tokens: int,
    counter: TokenCounter,
) -> ParsedMessage:
    """Return a message of the user's side: their words, or results with words beside them.

    Args:
        blocks: The blocks that are not results.
        results: The text of each result, and True if it is an error.
        answers: The ids of the calls that they answer.
        tokens: The tokens of the message without the blocks.
        user_tokens: The tokens of blocks without text.
        counter: Counts tokens.
    """
    text = texts_of(blocks)
    user_tokens += counter.count(text)
    if not answers:
        mixed = not all(map(is_text, blocks))
        return ParsedMessage(MessageRole.USER, tokens + user_tokens, text, mixed=mixed)
    return ParsedMessage(
        MessageRole.RESULT,
        tokens,
        "\n".join([result for result, _ in results]),
        answers=answers,
        user_text=text if blocks else None,
        user_tokens=user_tokens,
        results=tuple(results),
    )
