"""What methods, sources and kinds of agent are called in front of people."""

METHODS = {
    "everything": "everything",
    "floor": "the floor alone",
    "newest": "the newest steps",
    "default": "AGORA 0.1's default",
    "forms_now": "AGORA's default",
    "forms_worth": "AGORA 0.2.0's default",
    "forms": "forms by rule",
    "forms_notes": "forms, notes only",
    "forms_lines": "forms, lines only",
    "features": "steps by features",
    "masking": "old results masked",
    "commands_first": "commands first",
    "paper": "the paper's preset",
    "bm25": "steps by BM25",
    "langchain": "LangChain",
    "litellm": "LiteLLM",
    "forms_command": "and commands without thoughts",
    "forms_short": "and short results whole",
    "forms_stale": "and stale views lower",
    "forms_views": "and views weighed",
    "oracle": "the best at each anchor",
}
ABOUT = {
    "everything": "the whole prompt",
    "floor": "instructions, task and the last two steps",
    "newest": "the newest steps that fit",
    "default": "whole steps by shared words, and names of the others in markers",
    "forms_now": "AGORA as it is installed, editing at this call: forms by trained worth",
    "forms_worth": "what 0.2.0 sent at this call",
    "forms": "the same with a rule instead of trained trees",
    "forms_notes": "actions with notes in place of results, no lines",
    "forms_lines": "lines in markers, no notes in place",
    "features": "AGORA's trained scorer, steps whole or gone",
    "masking": "old tool results replaced by a note, actions kept",
    "commands_first": "all actions, then the newest results",
    "paper": "the published settings",
    "bm25": "steps that share rare words with the task and the last step",
    "langchain": "ClearToolUsesEdit, from its package",
    "litellm": "compress(), from its package",
    "oracle": "not a method: the limit of choosing among them",
}
KINDS = {
    "tools": "Agents that call tools",
    "coding": "Coding agents",
    "shell": "Agents in a shell or database",
    "text": "Agents in text worlds",
}
TARGETS = {
    "action": "the action",
    "needed": "the needed identifiers",
    "message": "the whole message",
}


def method_title(name: str) -> str:
    """Return a method's name in words; one that is not known keeps its own.

    >>> method_title("default"), method_title("my_method")
    ("AGORA 0.1's default", 'my method')
    """
    return METHODS.get(name, name.replace("_", " "))


def group_title(group: str, sources: tuple[str, ...] = ()) -> str:
    """Return the title of a source or of a kind of agent.

    >>> group_title("airline"), group_title("kind:coding")
    ('airline', 'Coding agents')
    """
    kind = group.removeprefix("kind:")
    if kind == group:
        return group
    title = KINDS.get(kind, kind)
    return f"{title} ({', '.join(sources)})" if len(sources) > 1 else title
