"""Every error this package raises on purpose.

AgoraError
├── ParseError           the messages do not read as a trajectory
├── UnknownFormatError   no wire format fits, or the one asked for is unknown
├── SettingError         a setting out of range, or an unknown word (also a ValueError)
├── BudgetError          a budget that makes no sense (also a ValueError)
├── PriceSheetError      a price sheet that cannot be right
├── ScoreError           a scorer did not return one number in [0, 1] per step
├── TooManyCallsError    a recorded trajectory is too long to replay
├── RecallError          no step has the number to recall
├── BundleError          a scorer that cannot be loaded: an unknown name, or a damaged bundle
├── LabelsError          a file without labels, or labels that nothing can be learned from
├── IllegalInputError    the input already breaks a provider's rule
├── GuardError           the output would be refused although the input is accepted
├── UnknownClientError   the object to wrap is not an openai or anthropic client
├── UnknownOptionError   a function was called with an option it does not have (also a TypeError)
└── MissingExtraError    an optional dependency is absent (also an ImportError)

An error takes its facts as arguments and writes its sentence in `__str__`, so
it says the same thing after a worker process has pickled it home.
"""

import difflib
import warnings
from collections.abc import Iterable, Sequence


def renamed(where: str, old: str, new: str) -> None:
    """Warn of a setting's old name, which is still read until the next minor version."""
    # From here through __post_init__ and the generated __init__ to whoever wrote the name.
    warnings.warn(f"{where}: {old} is called {new} now", DeprecationWarning, stacklevel=4)


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
    """No adapter reads what was given."""

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
    """Return a question with what was probably meant, or an empty text.

    >>> nearest("lexcal", ("lexical", "recency"))
    ' (did you mean lexical?)'
    """
    near = difflib.get_close_matches(str(word), list(known), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


class BudgetError(AgoraError, ValueError):
    """A budget that makes no sense."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"budget {self.problem}"


class PriceSheetError(AgoraError):
    """A price sheet that cannot be read, or whose prices cannot be right."""

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


class TooManyCallsError(AgoraError):
    """A recorded trajectory is too long to replay in reasonable time."""

    def __init__(self, calls: int, most: int) -> None:
        super().__init__(calls, most)
        self.calls = calls
        self.most = most

    def __str__(self) -> str:
        return f"it has {self.calls:,} calls; the limit for a replay is {self.most:,}"


class RecallError(AgoraError):
    """No step has the number to recall."""

    def __init__(self, number: object, steps: int) -> None:
        super().__init__(number, steps)
        self.number = number
        self.steps = steps

    def __str__(self) -> str:
        if not self.steps:
            return f"step {self.number!r} cannot be recalled: there are no steps"
        return f"step {self.number!r} cannot be recalled: the steps are 1 to {self.steps}"


class BundleError(AgoraError):
    """There is no such scorer, or its folder does not hold what it should."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where!r} {self.problem}"


class LabelsError(AgoraError):
    """A file without labels, or labels that nothing can be learned from."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, problem)
        self.file = file
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.file!r} {self.problem}"


class IllegalInputError(AgoraError):
    """The messages break a provider's rule before any edit."""

    def __init__(self, broken: Sequence[str]) -> None:
        super().__init__(tuple(broken))
        self.broken = tuple(broken)

    def __str__(self) -> str:
        return f"the messages would be refused as they are: {'; '.join(self.broken)}"


class GuardError(AgoraError):
    """The compressed messages break a rule that the original ones kept."""

    def __init__(self, broken: Sequence[str]) -> None:
        super().__init__(tuple(broken))
        self.broken = tuple(broken)

    def __str__(self) -> str:
        return f"the compressed messages would be refused: {'; '.join(self.broken)}"


class UnknownClientError(AgoraError):
    """The object to wrap is not an openai or anthropic client."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return f"{self.found} cannot be wrapped; pass a client of the openai or anthropic package"


class UnknownOptionError(AgoraError, TypeError):
    """A function was called with an option that it does not have."""

    def __init__(
        self, function: str, option: str, known: Sequence[str], settings: Sequence[str] = ()
    ) -> None:
        super().__init__(function, option, tuple(known), tuple(settings))
        self.function = function
        self.option = option
        self.known = tuple(known)
        self.settings = tuple(settings)
        """What a `Compressor` is created with."""

    def __str__(self) -> str:
        refused = f"{self.function}() has no option {self.option!r}"
        if self.option in self.settings:
            setting = f"agora.Compressor({self.option}=...)"
            return f"{refused}: it is a setting of the compressor, {setting}"
        near = nearest(self.option, (*self.known, *self.settings))
        return f"{refused}{near}; the options are {', '.join(self.known)}"


class MissingExtraError(AgoraError, ImportError):
    """An optional dependency is absent."""

    def __init__(self, module: str, extra: str, distribution: str = "agora-context") -> None:
        super().__init__(module, extra, distribution)
        self.module = module
        self.extra = extra
        self.distribution = distribution

    def __str__(self) -> str:
        return f"{self.module} needs an extra: pip install '{self.distribution}[{self.extra}]'"
