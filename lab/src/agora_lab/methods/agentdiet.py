"""AgentDiet (Xiao et al., 2025), after its paper: a second model trims each step once.

A step is trimmed when it is `delay` steps old, by a model that sees it with its neighbours and
removes what is useless, redundant or expired. The source trims steps above 500 tokens, which is
the size of a coding agent's output; text environments have shorter ones, so the limit is lower.
"""

from agora_lab.chats import ChatStep, Message, read, text_of, tokens_of, with_text
from agora_lab.methods.asking import AskingMethod, transcript
from agora_lab.methods.base import Messages, MethodSettings

_TRIM = """You reduce an agent's history to save tokens. Rewrite the observation between <trim> \
tags so that it holds only what the agent may still need: remove what is useless for the task, \
what other steps already say, and what later steps have made out of date. Keep names, numbers and \
ids word for word, and put ... where you remove text. Answer with the rewritten observation only."""


class AgentDiet(AskingMethod):
    """Replaces the observations of older steps by a model's shorter versions."""

    def __init__(
        self,
        settings: MethodSettings,
        *,
        delay: int = 2,
        around: int = 1,
        least_tokens: int = 48,
    ) -> None:
        """Set how old a step must be, how many neighbours are shown, and the least size."""
        super().__init__(settings)
        self._delay = max(delay, 1)
        self._around = around
        self._least_tokens = least_tokens

    def rewritten(self, messages: Messages) -> list[Message] | None:
        """Return the messages with older observations trimmed."""
        chat = read(messages)
        changes: dict[int, Message] = {}
        for step in chat.steps[: -self._delay]:
            if step.tokens < self._least_tokens:
                continue
            before = chat.steps[max(0, step.number - 1 - self._around) : step.number - 1]
            after = chat.steps[step.number : step.number + self._delay]
            for at in chat.observations(step):
                text = text_of(messages[at])
                parts = [
                    f"Task: {chat.task}",
                    *self._shown(messages, before),
                    f"Action: {step.action}\n<trim>{text}</trim>",
                    *self._shown(messages, after),
                ]
                shorter = self.ask(_TRIM, "\n\n".join(parts))
                trimmed = with_text(messages[at], shorter)
                if shorter and tokens_of([trimmed]) < tokens_of([messages[at]]):
                    changes[at] = trimmed
        return chat.replaced(changes) if changes else None

    @staticmethod
    def _shown(messages: Messages, steps: tuple[ChatStep, ...]) -> list[str]:
        return [transcript(messages[step.start : step.end]) for step in steps]
