"""HiAgent (Hu et al., 2025), after its paper: finished subgoals become summaries.

The model groups the history into subgoals. The steps of the current one stay verbatim; those of a
finished one are replaced by the subgoal and a summary of what it brought. In the original the
agent states a subgoal with its action; here the same model is asked about each step, so that any
agent can play.
"""

from agora_lab.chats import Chat, Message, append, read
from agora_lab.methods.asking import AskingMethod, transcript
from agora_lab.methods.base import Messages

_SUBGOAL = """You follow an agent's work. Given its task, current subgoal and newest step, say \
which subgoal the newest step serves. Answer with one line: SAME if it still serves the current \
subgoal, or NEW: and a subgoal of at most ten words if it begins another one."""
_SUMMARY = """An agent has finished a subgoal. Summarise in at most three sentences what it did \
and what it found out. Keep names, numbers and places that later steps may need word for word."""


class HiAgent(AskingMethod):
    """Keeps the current subgoal's steps and a summary of each finished subgoal."""

    max_tokens = 160

    def rewritten(self, messages: Messages) -> list[Message] | None:
        """Return the messages with finished subgoals summarised."""
        chat = read(messages)
        groups = self._groups(chat)
        if len(groups) < 2:
            return None
        notes = []
        for subgoal, numbers in groups[:-1]:
            steps = [chat.steps[number - 1] for number in numbers]
            text = transcript(chat.messages[steps[0].start : steps[-1].end])
            question = f"Task: {chat.task}\n\nSubgoal: {subgoal}\n\n{text}"
            summary = self.ask(_SUMMARY, question)
            notes.append(f"Subgoal done: {subgoal}\nResult: {summary}")
        sent = list(chat.preamble)
        append(sent, "\n\n".join(notes))
        first = chat.steps[groups[-1][1][0] - 1].start
        return [*sent, *chat.messages[first:]]

    def _groups(self, chat: Chat) -> list[tuple[str, list[int]]]:
        """Return each subgoal with the numbers of its steps."""
        groups: list[tuple[str, list[int]]] = []
        for step in chat.steps:
            subgoal = groups[-1][0] if groups else "none yet"
            text = transcript(chat.messages[step.start : step.end])
            question = f"Task: {chat.task}\n\nCurrent subgoal: {subgoal}\n\nNewest step:\n{text}"
            answer = self.ask(_SUBGOAL, question)
            new = answer.partition("NEW:")[2].strip().splitlines()
            if new or not groups:
                groups.append((new[0] if new else step.action[:80], []))
            groups[-1][1].append(step.number)
        return groups
