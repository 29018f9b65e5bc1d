"""ACON (Kang et al., 2025), after its paper: history and observations compressed by a guideline.

When the history grows above a threshold, a model rewrites all but the newest steps as a summary,
by a guideline; later it rewrites summary and new steps together. A long newest observation is
compressed in the same way. The original improves the guideline on failed runs; without such runs
this one is its starting point, in our own words. Another one can be given.
"""

from agora_lab.chats import K_RECENT, Message, append, read, text_of, tokens_of, with_text
from agora_lab.methods.asking import AskingMethod, transcript
from agora_lab.methods.base import Messages, MethodSettings

GUIDELINE = """Keep: the state the agent and the world are in now; what was found, with names, \
numbers, ids and places word for word; what has been done towards the task; what was tried and \
failed. Leave out: repeated looks, greetings, reasoning, and whatever a later step has replaced."""
_HISTORY = "Compress an agent's history so that it can go on without the original. "
_OBSERVATION = "Compress what an agent has just observed for its next decision. "


class Acon(AskingMethod):
    """Keeps a running summary and the steps since."""

    def __init__(
        self,
        settings: MethodSettings,
        *,
        history_tokens: int = 512,
        observation_tokens: int = 1024,
        guideline: str = GUIDELINE,
    ) -> None:
        """Set the thresholds and the guideline.

        Args:
            settings: The model to ask.
            history_tokens: Above this the history is rewritten. The source has 4,096, for longer
                episodes.
            observation_tokens: Above this the newest observation is rewritten, as in the source.
            guideline: Instructions for keeping and leaving out.
        """
        super().__init__(settings)
        self._history_tokens = history_tokens
        self._observation_tokens = observation_tokens
        self._guideline = guideline

    def rewritten(self, messages: Messages) -> list[Message] | None:
        """Return the messages with older steps summarised."""
        chat = read(messages)
        summary, first = "", 0
        for count in range(K_RECENT + 1, len(chat.steps) + 1):
            until = chat.steps[count - 1].end
            start = chat.steps[first].start
            tokens = tokens_of(messages[start:until]) + chat.counter.count(summary)
            if tokens <= self._history_tokens or count - K_RECENT <= first:
                continue
            old = transcript(messages[start : chat.steps[count - 1 - K_RECENT].end])
            known = f"\n\nSummary so far:\n{summary}" if summary else ""
            question = f"Task: {chat.task}{known}\n\nSteps:\n{old}"
            summary = self.ask(_HISTORY + self._guideline, question)
            first = count - K_RECENT
        newest = self._newest(messages, chat.task)
        if not summary and newest is None:
            return None
        if not summary:
            return [*messages[:-1], newest] if newest else None
        sent = list(chat.preamble)
        append(sent, f"What happened so far:\n{summary}")
        sent += messages[chat.steps[first].start :]
        return [*sent[:-1], newest] if newest else sent

    def _newest(self, messages: Messages, task: str) -> Message | None:
        """Return the newest observation compressed, or None if it is short."""
        last = messages[-1] if messages else {}
        text = text_of(last)
        small = tokens_of([last]) <= self._observation_tokens if messages else True
        if small or last.get("role") not in ("user", "tool") or len(messages) < 3:
            return None
        question = f"Task: {task}\n\nObservation:\n{text}"
        return with_text(last, self.ask(_OBSERVATION + self._guideline, question))
