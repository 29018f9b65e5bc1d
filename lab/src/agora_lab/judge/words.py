"""What methods, sources and kinds of agent are called in front of people."""

from collections.abc import Sequence

from agora_lab.evaluate.statistics import Estimate

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


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def percent(one: Estimate) -> str:
    """Return a share in percent with its interval."""
    return f"{100 * one.value:.0f} % [{100 * one.low:.0f}, {100 * one.high:.0f}]"
