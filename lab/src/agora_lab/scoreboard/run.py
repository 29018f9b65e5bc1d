"""Runs contenders on sessions: a task each, rows in a file, and only missing rows the next time."""

import json
import runpy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from agora import AgoraError, __version__
from agora_lab.jsonl import append, open_lines, read_lines
from agora_lab.methods.base import SkipMethod
from agora_lab.methods.isolated import Isolated, Peer, build
from agora_lab.on_ray import Outcome
from agora_lab.scoreboard.sessions import Session, sample
from agora_lab.scoreboard.simulate import (
    BINDS,
    OTHERS,
    OWN,
    Account,
    Prompts,
    Row,
    billed_dollars,
    sheets_of,
    simulate,
)
from agora_lab.scoreboard.worker import Sent, Table, turns

ROWS = "rows.jsonl"
RUN = "run.json"
"""Which sessions were drawn, how many were left out by which rule, and who could not run."""
SESSIONS = "sessions"
BASE = "everything"
_FOLDER = Path(__file__).parent
CONTENDERS = _FOLDER / "contenders"
_TIMEOUT_S = 900.0
_STAGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A file of the contenders' folder, at one of its settings."""

    file: Path
    setting: str
    title: str
    packages: tuple[str, ...]
    python: str
    """The version of Python that the packages need."""
    ours: bool
    priced: bool
    """True if it decides by the model's prices: then it plays each price sheet apart."""
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.file.stem

    @property
    def peer(self) -> Peer:
        """Its environment."""
        return Peer("worker", self.packages, _FOLDER, self.python)

    @property
    def version(self) -> str:
        """Its packages with their versions."""
        own = self.ours and self.name != BASE
        return ", ".join(self.packages) or (f"agora {__version__}" if own else "")


def contenders(names: Sequence[str] = ()) -> list[Contender]:
    """Return all contenders, or those named, each at its settings. A name may be a file's path.

    Raises:
        AgoraError: There is no such file.
    """
    files = [Path(name) if name.endswith(".py") else CONTENDERS / f"{name}.py" for name in names]
    missing = sorted(file.stem for file in files if not file.exists())
    if missing:
        raise AgoraError(f"there is no contender {', '.join(missing)}")
    own = sorted(path for path in CONTENDERS.glob("*.py") if path.stem != "__init__")
    return [
        Contender(
            file=file,
            setting=setting,
            title=fields["TITLE"],
            packages=tuple(fields.get("PACKAGES", ())),
            python=fields.get("PYTHON", ""),
            ours=fields.get("OURS", False),
            priced=fields.get("PRICED", False),
            options=options,
        )
        for file in files or own
        for fields in [runpy.run_path(str(file))]
        for setting, options in fields["SETTINGS"].items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A contender on a session."""

    contender: Contender
    session: Path
    data: str
    id: str

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of a row in the file."""
        return self.contender.name, self.contender.setting, self.id


def write_sessions(folder: Path, counts: Mapping[str, int]) -> list[Path]:
    """Write the sample's sessions to a run's folder, and return their paths.

    Sessions that are there already are not read from the data again.
    """
    place = folder / SESSIONS
    place.mkdir(parents=True, exist_ok=True)
    about = _about(folder)
    known = about["sample"]
    for data, count in counts.items():
        have = known.setdefault(data, {"drawn": [], "rules": {}})
        if len(have["drawn"]) < min(count, have["rules"].get("eligible", count)):
            drawn, rules = sample(data, count)
            names = [session.write(place).stem for session in drawn]
            known[data] = {"drawn": names, "rules": dict(rules)}
    _write_about(folder, about)
    return [
        place / f"{name}.json" for data in counts for name in known[data]["drawn"][: counts[data]]
    ]


def _about(folder: Path) -> dict[str, Any]:
    path = folder / RUN
    if not path.exists():
        return {"sample": {}, "absent": {}}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _write_about(folder: Path, about: Mapping[str, Any]) -> None:
    (folder / RUN).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def tasks(folder: Path, paths: Sequence[Path], chosen: Sequence[Contender]) -> list[Task]:
    """Return the rows that a run's file lacks.

    All contenders are played on a third of each data set, then on the next third. A run that is
    stopped leaves sessions that every contender was played on. Sending everything comes first.
    """
    done = {(r["contender"], r["setting"], r["session"]) for r in read_lines(folder / ROWS)}
    drawn = Counter(_data_and_id(path)[0] for path in paths)
    place: Counter[str] = Counter()
    found: list[tuple[int, Task]] = []
    for path in paths:
        data, name = _data_and_id(path)
        stage = place[data] * _STAGES // drawn[data]
        place[data] += 1
        for contender in chosen:
            task = Task(contender=contender, session=path, data=data, id=name)
            if task.key not in done:
                found.append((stage, task))
    found.sort(key=lambda one: (one[0], _turn(one[1].contender)))
    return [task for _, task in found]


def _turn(contender: Contender) -> tuple[bool, bool, str, str]:
    everything = contender.name == BASE
    return not everything, contender.ours, contender.name, contender.setting


def _data_and_id(path: Path) -> tuple[str, str]:
    data, _, name = path.stem.rpartition("-")
    return data, name


def write_rows(folder: Path, rows: Iterator[Row]) -> Iterator[Row]:
    """Append rows to the run's file as they come, and pass them on."""
    with open_lines(folder / ROWS) as file:
        for row in rows:
            append(file, asdict(row))
            yield row


def prepare_environments(chosen: Sequence[Contender]) -> dict[str, str]:
    """Create the environments of contenders with packages; return why one could not be."""
    problems: dict[str, str] = {}
    for contender in chosen:
        if contender.packages and contender.name not in problems:
            try:
                build(contender.peer)
            except SkipMethod as reason:
                problems[contender.name] = str(reason)
    return problems


def write_absent(folder: Path, chosen: Sequence[Contender], problems: Mapping[str, str]) -> None:
    """Note in a run's folder which contenders could not run at all, and why."""
    absent = {
        f"{one.name} | {one.setting}": problems[one.name] for one in chosen if one.name in problems
    }
    _write_about(folder, _about(folder) | {"absent": absent})


def row_of(outcome: Outcome[Task, Row]) -> Row:
    """Return the row of a task; one whose process was lost has that as its problem."""
    if outcome.value is not None:
        return outcome.value
    task = outcome.task
    return Row(
        contender=task.contender.name,
        setting=task.contender.setting,
        version=task.contender.version,
        session=task.id,
        data=task.data,
        problem=outcome.error[:300],
    )


def play(task: Task) -> Row:
    """Return the row of a contender on a session; a contender that fails has its problem there."""
    contender, session = task.contender, Session.read(task.session)
    row = Row(
        contender=contender.name,
        setting=contender.setting,
        version=contender.version,
        session=session.id,
        data=session.data,
        billed=billed_dollars(session),
    )
    fields = asdict(row)
    sheets = sheets_of(session)
    try:
        if contender.priced:
            fields |= simulate(session, prompts(contender, session), {OWN: sheets[OWN]})
            for name in OTHERS:
                other = simulate(session, prompts(contender, session, name), {name: sheets[name]})
                fields["dollars"] |= other["dollars"]
                if name == BINDS:
                    fields["stale"] = other["stale"]
        else:
            fields |= simulate(session, prompts(contender, session), sheets)
    except (AgoraError, SkipMethod) as problem:
        fields["problem"] = str(problem)[:300]
    except Exception as problem:
        # A contender may raise anything; its other sessions are still played.
        fields["problem"] = f"{type(problem).__name__}: {problem}"[:300]
    moments = fields.pop("moments", None)
    if moments:
        fields["highest"] = _highest(moments, session)
    return Row(**fields)


def prompts(contender: Contender, session: Session, model: str | None = None) -> Prompts:
    """Yield a contender's prompt at each call."""
    sums = [0]
    for tokens in session.tokens:
        sums.append(sums[-1] + tokens)
    about = {
        "model": model or session.model,
        "format": session.format,
        "before": session.before,
        "scale": session.scale,
        "tokens": session.tokens,
        "prompt_tokens": [session.before + sums[call] for call in session.calls],
        "at_seconds": session.at_seconds,
        "ttl": session.ttl,
    }
    if contender.packages:
        return _isolated_prompts(contender, session, about)
    return _own_prompts(contender, session, about)


def _own_prompts(contender: Contender, session: Session, about: dict[str, Any]) -> Prompts:
    fields = runpy.run_path(str(contender.file))
    table = Table(session.messages, thinking=fields.get("THINKING", False))
    edit = fields["prepare"](dict(contender.options))
    ways = {"keeps": fields.get("KEEPS", False), "pure": fields.get("PURE", False)}
    calls = turns(edit, table, session.calls, about, **ways)
    try:
        sent = next(calls)
        while True:
            answered = yield sent, table.messages
            sent = calls.send(answered)
    except StopIteration:
        return


def _isolated_prompts(contender: Contender, session: Session, about: dict[str, Any]) -> Prompts:
    request = {"messages": session.messages, "calls": session.calls, "about": about}
    options = json.dumps({"file": str(contender.file), "settings": dict(contender.options)})
    answer = _process(contender.peer, options).ask(request)
    table = session.messages + answer["made"]
    before: list[int] = []
    for (same, rest), cpu_ms in zip(answer["prompts"], answer["cpu_ms"], strict=True):
        before = before[:same] + rest
        yield Sent(before, cpu_ms), table


@lru_cache(maxsize=1)
def _process(peer: Peer, options: str) -> Isolated:
    """Return the process of a contender; the one before it ends when it is forgotten."""
    return Isolated(peer, json.loads(options), _TIMEOUT_S)


def _highest(moments: Sequence[float], session: Session) -> float:
    """Return the highest ratio of the bill so far to that of sending everything."""
    everything = Account(session, sheets_of(session)[OWN])
    for call in session.calls:
        everything.send(range(call), session.messages, session.tokens)
    spent = base = highest = 0.0
    for ours, theirs in zip(moments, everything.dollars, strict=True):
        spent, base = spent + ours, base + theirs
        highest = max(highest, spent / base if base else 0.0)
    return highest
