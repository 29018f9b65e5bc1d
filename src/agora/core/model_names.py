"""Names of models, without the parts that platforms add."""


def bare_name(model: str) -> str:
    """Return the name without provider path, fine-tuning mark and region or vendor labels.

    >>> bare_name("bedrock/us.anthropic.claude-opus-4.5")
    'claude-opus-4-5'
    """
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    label, dot, rest = name.partition(".")
    while dot and label.replace("-", "").isalpha():
        label, dot, rest = (name := rest).partition(".")
    return name.replace(".", "-")


def belongs(name: str, family: str) -> bool:
    """Return True if `name` is the family, a variant or a dated release of it.

    >>> [belongs(f"gpt-4-{rest}", "gpt-4") for rest in ("0613", "turbo", "5")]
    [True, True, False]
    """
    if not name.startswith(family):
        return False
    rest = name[len(family) :]
    if not rest:
        return True
    # "-5" or "-15" after a family is another version of it; "-20251101" and "-0613" are dates.
    digits = len(rest) - 1 - len(rest[1:].lstrip("0123456789"))
    return rest[0] in "-@:_" and digits not in (1, 2)
