"""The errors of this package.

AgoraError
├── ParseError             the messages do not read as a trajectory
├── UnknownFormatError     no wire format fits, or its name is unknown
├── SettingError           a setting out of range, or an unknown word (also a ValueError)
├── PriceSheetError        an invalid price sheet
├── ScoreError             a scorer did not return one number in [0, 1] per step
├── RecallError            no step has the number to recall
├── BundleError            an unknown scorer, or a damaged bundle
├── IllegalMessagesError   a provider would refuse the messages, before or after an edit
└── MissingExtraError      an optional dependency is absent (also an ImportError)

An error takes its facts as arguments and writes its sentence in `__str__`, so it reads the same
after a worker process has pickled it.
"""

import difflib
from collections.abc import Iterable, Sequence

RELEASED = False
"""True once the packages are on the index. The install lines of all pages follow it too."""


class AgoraError(Exception):
    """Base class of every error that Agora raises on purpose."""


class ParseError(AgoraError):
    """A message does not fit the trajectory being read."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(position, problem)
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        return f"message {self.position} {self.problem}"


class UnknownFormatError(AgoraError):
    """No wire format fits the messages, or its name is unknown."""

    def __init__(self, found: str, known: Sequence[str]) -> None:
        super().__init__(found, tuple(known))
        self.found = found
        self.known = tuple(known)

    def __str__(self) -> str:
        return f"{self.found}; the formats are {', '.join(self.known)}"


class SettingError(AgoraError, ValueError):
    """A setting out of range, or an unknown word.

    Raised when the configured object is created, never by traffic.
    """

    def __init__(self, setting: str, found: str, needed: str, known: Sequence[str] = ()) -> None:
        super().__init__(setting, found, needed, tuple(known))
        self.setting = setting
        self.found = found
        self.needed = needed
        self.known = tuple(known)

    def __str__(self) -> str:
        near = nearest(self.found.strip("'\""), self.known)
        return f"{self.setting} is {self.found}; it must be {self.needed}{near}"


def nearest(word: object, known: Iterable[str]) -> str:
    """Return a question with the nearest known name, or an empty text.

    >>> nearest("bn25", ("bm25", "recency"))
    ' (did you mean bm25?)'
    """
    near = difflib.get_close_matches(str(word), list(known), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def type_name(value: object) -> str:
    """Return a description of a value's type, for an error.

    >>> type_name(3), type_name(ValueError)
    ('an object of type int', 'the class ValueError')
    """
    kind = value if isinstance(value, type) else type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    name = f"{module}{kind.__qualname__}"
    return f"the class {name}" if kind is value else f"an object of type {name}"


class PriceSheetError(AgoraError):
    """A price sheet cannot be read, or has impossible prices."""

    def __init__(self, sheet: str, problem: str) -> None:
        super().__init__(sheet, problem)
        self.sheet = sheet
        self.problem = problem

    def __str__(self) -> str:
        return f"price sheet {self.sheet!r} {self.problem}"


class ScoreError(AgoraError):
    """A scorer did not return one number in [0, 1] for each step."""

    def __init__(self, scorer: str, problem: str) -> None:
        super().__init__(scorer, problem)
        self.scorer = scorer
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"{self.scorer} returned {self.problem}; it must return one number in [0, 1] per step"
        )


class RecallError(AgoraError):
    """There is no step with this number."""

    def __init__(self, number: object, steps: int) -> None:
        super().__init__(number, steps)
        self.number = number
        self.steps = steps

    def __str__(self) -> str:
        if not self.steps:
            return f"step {self.number!r} cannot be recalled: there are no steps"
        return f"step {self.number!r} cannot be recalled: the steps are 1 to {self.steps}"


class BundleError(AgoraError):
    """The scorer is unknown, or its folder is damaged."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where!r} {self.problem}"


class IllegalMessagesError(AgoraError):
    """Messages break a provider's rule, before or after an edit."""

    def __init__(self, what: str, violations: Sequence[str]) -> None:
        super().__init__(what, tuple(violations))
        self.what = what
        self.violations = tuple(violations)

    def __str__(self) -> str:
        return f"{self.what} would be refused: {'; '.join(self.violations)}"


class MissingExtraError(AgoraError, ImportError):
    """An optional dependency is absent."""

    def __init__(self, module: str, extra: str, distribution: str = "agora-context") -> None:
        super().__init__(module, extra, distribution)
        self.module = module
        self.extra = extra
        self.distribution = distribution

    def __str__(self) -> str:
        return f"{self.module} needs an extra: {install_command(self.extra, self.distribution)}"


def install_command(extra: str = "", distribution: str = "agora-context") -> str:
    """Return the command that installs a distribution of ours, with an extra."""
    extras = f"[{extra}]" if extra else ""
    if RELEASED:
        return f"pip install '{distribution}{extras}'"
    folder = "./lab" if distribution == "agora-lab" else "."
    return f"pip install '{folder}{extras}' (in a checkout)"
