"""Questions that a method asks a language model while it shortens a prompt."""

from agora_lab.agents.client import ModelClient
from agora_lab.chats import Message, message_text, read
from agora_lab.methods.base import Messages, MethodSettings, Shortened, SkipMethod

_MOST_ANSWERS = 4096


class AskingMethod:
    """A method that rebuilds its memory from the messages at every call.

    An answer to a question that was asked before is remembered, so the same messages give the
    same result, and each step of an episode pays only for its new questions.
    """

    max_tokens = 400
    """Of an answer."""

    def __init__(self, settings: MethodSettings) -> None:
        """Take the language model to ask.

        Raises:
            SkipMethod: The settings have no language model.
        """
        if settings.llm is None:
            raise SkipMethod("needs a language model to ask; scripted agents cannot summarise")
        self._llm: ModelClient = settings.llm
        self._answers: dict[tuple[str, str], str] = {}
        self._input_tokens = self._output_tokens = 0

    def shorten(self, messages: Messages) -> Shortened:
        """Return the shortened messages, and the tokens of this call's questions."""
        self._input_tokens = self._output_tokens = 0
        shorter = self.rewritten(messages)
        return Shortened(
            messages=messages if shorter is None else shorter,
            input_tokens=self._input_tokens,
            output_tokens=self._output_tokens,
            detail="there is nothing to shorten yet" if shorter is None else "",
        )

    def rewritten(self, messages: Messages) -> list[Message] | None:
        """Return the shortened messages, or None if nothing is to be shortened."""
        raise NotImplementedError

    def ask(self, instructions: str, text: str) -> str:
        """Return the model's answer, asked now or remembered."""
        key = (instructions, text)
        if key not in self._answers:
            answer = self._llm.answer(
                [{"role": "system", "content": instructions}, {"role": "user", "content": text}],
                max_tokens=self.max_tokens,
            )
            self._input_tokens += answer.input_tokens
            self._output_tokens += answer.output_tokens
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.pop(next(iter(self._answers)))
            self._answers[key] = answer.text.strip()
        return self._answers[key]


def transcript(messages: Messages) -> str:
    """Write steps as text for a question.

    >>> print(transcript([{"role": "assistant", "content": "look"},
    ...                   {"role": "user", "content": "A key."}]))
    Action: look
    Observation: A key.
    """
    calls = read(messages).calls
    lines = []
    for message in messages:
        observed = message.get("role") in (("tool",) if calls else ("user",))
        kind = "Action" if message.get("role") == "assistant" else "User"
        lines.append(f"{'Observation' if observed else kind}: {message_text(message)}")
    return "\n".join(lines)
