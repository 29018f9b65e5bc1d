"""What methods, sources and kinds of agent are called in front of people."""

METHODS = {
    "everything": "everything",
    "floor": "the floor alone",
    "newest": "the newest steps",
    "forms_now": "AGORA's default",
    "forms_worth": "AGORA 0.2.0's default",
    "masking": "old results masked",
    "commands_first": "commands first",
    "langchain": "LangChain",
    "litellm": "LiteLLM",
    "oracle": "the best at each anchor",
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

    >>> method_title("newest"), method_title("my_method")
    ('the newest steps', 'my method')
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
