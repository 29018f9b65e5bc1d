"""Writes `docs/results.md` and the README's table from the run files in `docs/results/`.

Run with nothing but the package installed: python docs/make_results.py
"""

import gzip
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("results")
PAGE = Path(__file__).with_name("results.md")
README = Path(__file__).parents[1] / "README.md"
GRIDS = Path(__file__).parents[1] / "lab" / "grids"
LAST = "0501185"
"""The last commit that has the code of questions that are answered."""
FILES = {
    "player-card-webshop.json": (
        "a small language model taught to play WebShop: its lessons, and what it reached",
        "agora lab teach card",
    ),
    "player-card-short.json": (
        "ALFWorld's, taught shortened prompts too: its lessons, and validation games",
        "agora lab teach card",
    ),
    "player-card.json": (
        "a small language model taught to play ALFWorld: its lessons, and what it reached",
        "agora lab teach card",
    ),
    "coverage.json": ("is what the next call needs still in the prompt", "just bench-coverage"),
    "gateway.json": (
        "what the gateway promises, figure by figure",
        "python -m benchmarks.gateway --out docs/results/gateway.json",
    ),
    "billed.json": (
        "our bill of real coding sessions beside the provider's",
        "python -m benchmarks.billed --out docs/results/billed.json",
    ),
    "one-question.json": (
        "compressor, replay, explain and gateway asked about every call: do they name one edit",
        "python -m benchmarks.one_question --out docs/results/one-question.json",
    ),
    "bound-agents.json": (
        "real coding agents with models that bind thinking",
        "python -m benchmarks.bound_agents --out docs/results/bound-agents.json",
    ),
    "bound-bytes.json": (
        "the same bytes for models that bind thinking: library, gateway, filter, `/v1/compress`",
        "python -m benchmarks.bound_bytes --out docs/results/bound-bytes.json",
    ),
    "bound-saving.json": (
        "what edits save on models that bind thinking, steps removed or masked",
        "python -m benchmarks.bound_saving --sessions 60 --out docs/results/bound-saving.json",
    ),
    "cache-fit.json": (
        "a best-effort prefix cache, fitted to a real bill",
        "python -m benchmarks.cache_fit",
    ),
    "gateway-hostile.json": (
        "10,000 made-up requests against the gateway",
        "python -m benchmarks.gateway_hostile --out docs/results/gateway-hostile.json",
    ),
    "gateway-sessions.json": (
        "many large sessions through one gateway",
        "python -m benchmarks.gateway_sessions",
    ),
    "gateway-soak.json": (
        "an hour of 64 sessions, half beside three conversations of 10,000 steps; other runs",
        "python -m benchmarks.gateway_soak --minutes 60 --out docs/results/gateway-soak.json",
    ),
    "agents.json": ("real coding agents through the gateway, before `agora wrap`", ""),
    "wrap.json": (
        "real coding agents by `agora wrap`, 100 sessions at once, from nothing to a session",
        "just agents",
    ),
    "envoy.json": (
        "the filter in a real Envoy: faults, kills, bytes and CPU, on a busy machine",
        "python -m benchmarks.envoy --out docs/results/envoy.json",
    ),
    "prices-llama.json": (
        "prefill time of a llama.cpp server, cold and warm, and its price sheet",
        "agora prices measure URL --words 600 --json docs/results/prices-llama.json",
    ),
    "litellm-proxy.json": (
        "LiteLLM's released proxy with the gateway as its compressor",
        "python -m benchmarks.litellm_proxy --out docs/results/litellm-proxy.json",
    ),
    "arrival.json": (
        "what could be left out of results as they arrive, and what that saves of the bill",
        "python -m benchmarks.arrival LOG --json docs/results/arrival.json",
    ),
    "long-lines-now.jsonl.gz": (
        "the same with markers that reach across a user's words, with the grammar: 150 rows",
        "agora lab grid lab/grids/long_lines.toml --out RUN --workers 0",
    ),
    "long-lines.jsonl.gz": (
        "long conversations with the lines of 0.3, read with and without their grammar: 300 rows",
        "agora lab grid lab/grids/long_lines.toml --out RUN --workers 0",
    ),
    "references.json": (
        "what a language model loses where repeated lines are a reference, by wording and kind",
        "python -m lab.benchmarks.references MODEL --out RUN --report docs/results/references.json",
    ),
    "references.jsonl": (
        "the records behind it, without texts; part-0.jsonl of a run to resume",
        "python -m lab.benchmarks.references MODEL --out RUN",
    ),
    "experiment-arms.json": (
        "whether conversations stay in their arm: three replicas, kills, a rising share",
        "python -m benchmarks.experiment_arms --out docs/results/experiment-arms.json",
    ),
    "experiment-drawn.json": (
        "experiments drawn from played episodes: harm stopped, no harm cleared",
        "python -m benchmarks.experiment_drawn --out docs/results/experiment-drawn.json",
    ),
    "experiment-played.json": (
        "experiments drawn from conversations played through a running gateway",
        "python -m benchmarks.experiment_drawn --gateway --out docs/results/experiment-played.json",
    ),
    "experiment-played.jsonl.gz": (
        "those conversations, as the gateway counted them",
        "python -m lab.benchmarks.experiment_played --rows FILE, and again with --arms floor",
    ),
    "experiment-errors.json": (
        "how often intervals of an experiment are wrong, looked at after every conversation",
        "python -m benchmarks.experiment_errors --out docs/results/experiment-errors.json",
    ),
    "replicas.json": (
        "calls read cold by replicas behind Envoy, routed by conversation and not",
        "python -m benchmarks.replicas --out docs/results/replicas.json",
    ),
    "shadow.json": (
        "bodies that go on byte for byte in shadow mode",
        "python -m benchmarks.shadow --out docs/results/shadow.json",
    ),
    "integrations.json": ("agents before a real server", "just integrations --real URL"),
    "label-forms.json": (
        "forms of labels, compared",
        f"python -m lab.benchmarks.label_forms at {LAST}",
    ),
    "min-tokens.json": (
        "bills by where editing begins",
        "python -m benchmarks.min_tokens LOG --work FOLDER --out docs/results/min-tokens.json",
    ),
    "judge-shells.jsonl.gz": (
        "records of the judge for shells with commands word for word, to join judge/run",
        "agora lab fidelity run --sources intercode --methods newest,commands_first,forms_now …",
    ),
    "needs-commands.json": (
        "needs.json again, with commands word for word in their lines",
        "python -m lab.benchmarks.needs coding --json docs/results/needs-commands.json …",
    ),
    "long-references.json": (
        "long conversations with references, by readers that look further up or do not",
        "agora lab grid lab/grids/long_references.toml --out RUN --workers 0",
    ),
    "thoughts.json": (
        "what later messages take up of thoughts, commands and results",
        "python -m lab.benchmarks.thoughts coding intercode airline claude-code …",
    ),
    "needs.json": (
        "what the next ten actions need that is still there, coding, without a language model",
        "python -m lab.benchmarks.needs coding --json docs/results/needs.json --methods …",
    ),
    "worth.json": (
        "what the trained worth keeps, kind by kind left out",
        "python -m lab.benchmarks.worth LABELS --every 2 --json docs/results/worth.json",
    ),
    "labelling.json": ("labels on Ray: exactly once, rate, growth", "just bench-labelling"),
    "labels-qwen.json": ("labels by a language model", f"agora label quality at {LAST}"),
    "labels-qwen-counterfactual.parquet": ("those labels, counterfactual", "agora label make"),
    "labels-qwen-likelihood.parquet": ("those labels, by likelihood", "agora label make"),
    "lpft-mpnet.json": (
        "an encoder trained as in the paper",
        f"python -m lab.benchmarks.encoders at {LAST}",
    ),
    "lpft-mpnet.jsonl": ("its learning curve", f"python -m lab.benchmarks.encoders at {LAST}"),
    "long-needs.json": (
        "long conversations: how often what is needed is old, sizes of results",
        "python -m lab.benchmarks.long_conversations --out docs/results/long-needs.json",
    ),
    "first-minutes.json": (
        "the quickstart typed by somebody who has nothing",
        "python -m tests.release.first_minutes WHEEL",
    ),
    "judge-speed.json": (
        "what reading costs the judge, beside a bare loop and llama.cpp",
        "python -m lab.benchmarks.likelihood FOLDER --gguf FILE --json FILE",
    ),
    "peers.json": ("released peers on the same conversations", "just bench peers"),
    "read-logs.json": (
        "how much of each recorded folder is read",
        "python -m benchmarks.read_logs --out docs/results/read-logs.json",
    ),
    "properties.json": (
        "every property on drawn histories of seven formats, violations counted",
        "just long properties",
    ),
    "replay-time.json": (
        "CPU seconds and memory of a replay against its length",
        "python -m benchmarks.replay --steps --out docs/results/replay-time.json",
    ),
    "ceiling.json": (
        "What each ceiling on the bill saves and risks, by price sheet",
        "python -m benchmarks.ceiling --out docs/results/ceiling.json",
    ),
    "ceiling-holds.json": (
        "Whether a bill ever exceeds its ceiling: generated runs, both cache rules, every call",
        "python -m benchmarks.ceiling_holds --out docs/results/ceiling-holds.json",
    ),
    "by-model.json": (
        "What AGORA and the best schedule in hindsight save, by model",
        "python -m benchmarks.ceiling --ceilings 1.05 --runs 50 --sheets MODEL ... --out FILE",
    ),
    "replay-swe-bench.json": (
        "500 recorded coding runs, billed and simulated",
        "agora replay AGORA_DATA/swe-bench-gemini --json FILE",
    ),
    "release.json": (
        "both wheels in clean environments, and their sizes",
        "python -m tests.release.environments dist",
    ),
    "scorer-features.json": (
        "how well scorers rank needed steps",
        "python -m lab.benchmarks.scorer",
    ),
}


def page() -> str:
    """Return the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Results"
    yield ""
    yield (
        "Tables made from the run files by `docs/make_results.py`; a test compares them. Brackets "
        "are 95 % intervals, resampled by task. What was tried around each, and what failed, "
        "stands in the [log](log.md)."
    )
    yield ""
    yield from _episodes()
    yield ""
    yield from _short()
    yield ""
    yield from _long()
    yield ""
    yield from _player()
    yield ""
    yield from _scorers()
    yield ""
    yield from _worth()
    yield ""
    yield from _coverage()
    yield ""
    yield "## What a prompt is worth to a language model"
    yield ""
    yield (
        "A language model says how likely the recorded next action is under each prompt. The "
        "figures are the share of what the floor loses there that each method wins back with 25 % "
        "of the tokens outside the floor; behind it the share really sent. `forms_now` is AGORA's "
        "default, `forms_worth` that of 0.2.0, `default` that of 0.1 "
        "([how](guides/fidelity.md), `agora lab fidelity report RUN`)."
    )
    yield ""
    for folder in ("judge-tools-test", "judge-shells", "judge-coding-test"):
        yield from fidelity(json.loads(_read(f"{folder}/fidelity.json")), folder)
    yield "Earlier: the 13 prompts at which peers were judged too, and coding's validation half."
    yield ""
    for folder in ("judge-tools", "judge-coding"):
        yield from fidelity(json.loads(_read(f"{folder}/fidelity.json")), folder)
    yield "Every other method, measured with 0.2.0:"
    yield ""
    for folder in ("judge-test", "judge"):
        yield from fidelity(json.loads(_read(f"{folder}/fidelity.json")), folder)
    yield "## Bills"
    yield ""
    yield (
        "The same long conversations through released peers and through AGORA: input cost as a "
        "ratio to sending everything, mean of three made-up tool-calling conversations of 120 "
        "steps (173,000 to 206,000 tokens at the end, by our estimate), with the provider's cache "
        "simulated; in brackets the worst. Read and write prices are given with each model. Every "
        "call is shortened again from the whole history, as a stateless hook does, and nothing is "
        "said about what the agent can still do. Our validator found no illegal request by any of "
        "them."
    )
    yield ""
    yield from peers()
    yield ""
    yield (
        "Set-ups: versions of the packages stand in the run file. *Defaults* are the peers' own; "
        "LiteLLM's, which begins at 200,000 tokens by its own count, changed nothing. LangChain's "
        "edit keeps the newest three results and replaces the others. LiteLLM's tool for getting "
        "messages back is left out; its schema changes with what was stubbed, which would cost "
        "more. Headroom is its library alone, without the proxy and without its model for plain "
        "text, which is a download: it shortens JSON in new results and leaves the history as it "
        "is. For claude-sonnet-5 the system text and the newest message are marked."
    )
    yield ""
    yield (
        "[The bill](concepts/bill.md) has the schedules by price sheet (`just bench-bill`), "
        "[one story](guides/story.md) an agent in WebShop with and without AGORA "
        "(`python lab/examples/story.py --conversations 10`)."
    )
    yield ""
    yield from _least()
    yield ""
    yield "## Run files"
    yield ""
    yield "| file | what it holds | made by |"
    yield "|---|---|---|"
    for name in sorted(path.name for path in FOLDER.iterdir() if path.is_file()):
        about, command = FILES.get(name, ("", ""))
        command, there, last = command.partition(" at ")
        made = f"`{command}`{there and f', at {last}'}" if command else ""
        yield f"| [{name}](results/{name}) | {about} | {made} |"


RUNS = {
    "readers": ("all methods, 300 tasks a world, the goals, the paper's findings", "readers"),
    "long": ("long conversations: desk, shop_orders, chains, households; see the guide", "desk"),
    "short_worlds": ("forms at every call in the three short worlds", "short_worlds"),
    "remedies": ("what was tried against the newest steps, on validation tasks", "remedies"),
    "ablations": ("one part taken away at a time", "ablations"),
    "sensitivity": ("one setting at a time, with pictures", "sensitivity"),
    "peers": ("released peers from their own packages", "peers"),
    "llm": ("a language model of 1.5 billion weights", "llm"),
    "player": ("a language model of 135 million weights that was taught to play", "player"),
}
"""Folders of reports: what each compares, and the grid it was played from."""
SHOWN = (
    "none",
    "floor",
    "floor_matched",
    "random_step",
    "observation_mask",
    "observation_mask_matched",
    "agora_paper",
    "agora_every_call",
    "agora_novel",
    "agora",
)


def _episodes() -> Iterator[str]:
    report = json.loads(_read("readers/report.json"))
    worlds = list(dict.fromkeys(cell["environment"] for cell in report["cells"]))
    yield "## Whole episodes"
    yield ""
    yield (
        "Reward of agents that act only on what their prompt says (*readers*: an instrument, not "
        "a language model), test tasks of three text worlds; behind it tokens of `none` / its own, "
        "call by call, and the bill as a ratio to `none` by claude-sonnet-4-5's sheet. "
        "`floor_matched` is the newest steps that fit the same budget. **The default (`agora`) "
        "leaves prompts this short alone: it keeps the reward because it edits nothing. Editing at "
        "every call loses reward, and what 0.1 chose is no better than the newest steps, except in "
        "ScienceWorld with `agora_novel`; what is chosen since stands below.** Goals that were "
        "missed are listed in the report."
    )
    yield ""
    yield "| method | " + " | ".join(worlds) + " |"
    yield "|---|" + "---|" * len(worlds)
    cells = {(cell["method"], cell["environment"]): cell for cell in report["cells"]}
    for method in SHOWN:
        found = [cells[method, world] for world in worlds]
        yield f"| `{method}` | " + " | ".join(_cell(cell) for cell in found) + " |"
    yield ""
    yield "| report | what it compares | made by |"
    yield "|---|---|---|"
    for name, (about, grid) in RUNS.items():
        if (FOLDER / name / "report.json").exists():
            cells_of = json.loads(_read(f"{name}/report.json"))["cells"]
            episodes = sum(cell["episodes"] for cell in cells_of)
            last = "" if (GRIDS / f"{grid}.toml").exists() else f", at {LAST}"
            yield (
                f"| [{name}](results/{name}/report.md), {episodes:,} episodes | {about} | "
                f"`agora lab grid lab/grids/{grid}.toml`{last} |"
            )


def _cell(cell: dict[str, Any]) -> str:
    reward, bill = cell["reward"], cell["bills"]["claude-sonnet-4-5"]["ratio_to_none"]
    return (
        f"{reward['value']:.3f} [{reward['low']:.2f}, {reward['high']:.2f}], n = {reward['n']}; "
        f"{cell['compression_by_call']['value']:.2f}x; bill {bill['value']:.2f}"
    )


def _short() -> Iterator[str]:
    yield "### Forms in the three short worlds"
    yield ""
    yield (
        "At every call a quarter of what lies outside the floor is kept, whatever the prices say; "
        "test tasks, readers ([report](results/short_worlds/report.md), `agora lab grid "
        "lab/grids/short_worlds.toml`). `agora_forms_worth` is the default's choice, "
        "`agora_every_call` that of 0.1. ScienceWorld's reader was changed before, on validation "
        "tasks, so that it reads the lines that forms write; as it was, forms were behind there "
        "(0.910 and 0.951, 30 validation tasks; [log](log.md))."
    )
    cells = json.loads(_read("short_worlds/report.json"))["cells"]
    yield ""
    yield "| world | method | reward | steps | fewer tokens, call by call |"
    yield "|---|---|---|---|---|"
    for cell in cells:
        figures = [_bracketed(cell["reward"], 3), _bracketed(cell["steps"], 1)]
        figures += [_bracketed(cell["compression_by_call"], 2)]
        name = f"`{cell['method']}`, n = {cell['reward']['n']}"
        yield f"| {cell['environment']} | {name} | {' | '.join(figures)} |"
    for world in dict.fromkeys(cell["environment"] for cell in cells):
        tasks, more = _ahead(world, "short_worlds")
        yield ""
        yield f"{world}: `{FORMS}` minus `{NEWEST}` {more}, {tasks} tasks."


def _ahead(world: str, report: str) -> tuple[int, str]:
    """Return how many tasks forms and the newest steps share, and the difference in reward."""
    ours, theirs = (_rows(world, report)[name] for name in (FORMS, NEWEST))
    tasks = sorted(ours.keys() & theirs.keys())
    return len(tasks), _resampled([ours[one]["reward"] - theirs[one]["reward"] for one in tasks])


def _long() -> Iterator[str]:
    found = json.loads(_read("long-needs.json"))
    needs, orders = found["desk"], found["shop_orders"]
    calls, deeds = needs["needs"]["calls"], needs["needs"]["deeds"]
    lost = needs["needs"]["deeds that need what no tool shows again"]
    back = orders["orders that point back"]
    end, ends = needs["prompt_tokens_at_the_end"], orders["prompt_tokens_at_the_end"]
    yield "## Long conversations"
    yield ""
    yield (
        "Readers. `desk`: one customer, 18 to 52 requests, tools over a database; with everything "
        f"sent a prompt has {end['least']:,} to {end['most']:,} tokens "
        f"at the end (half of them {end['half']:,} or less). What a call needs stands only outside "
        f"the floor in {calls['share']:.0%} [{calls['low']:.0%}, {calls['high']:.0%}] of "
        f"{calls['of']:,} calls, and in {deeds['share']:.0%} [{deeds['low']:.0%}, "
        f"{deeds['high']:.0%}] of the {deeds['of']:,} that do what was asked for "
        f"({needs['tasks']} {needs['split']} tasks, [run file](results/long-needs.json)). "
        f"In {lost['share']:.0%} of these {lost['of']:,} it is a value that no tool shows again. "
        "`shop_orders`: 8 to 14 "
        f"orders in WebShop, {ends['least']:,} to {ends['most']:,} tokens; {back['share']:.0%} of "
        f"the {back['of']} orders that point back need what stands only outside the floor "
        f"({orders['tasks']} {orders['split']} tasks). The tables: test tasks, as many as were "
        "played; at every call a quarter of what lies outside the floor is kept, `agora` edits "
        "where the prices say that it pays. The bill is by claude-sonnet-4-5's sheet, as a ratio "
        "to `none` on the same tasks, extra steps included."
    )
    if "households" in found:
        yield ""
        yield from _households(found["households"])
    if "chains" in found:
        yield ""
        yield from _chains(found["chains"])
    for world in ("desk", "shop_orders", "chains", "households"):
        if world in {cell["environment"] for cell in _long_cells()}:
            yield ""
            yield from _long_table(world)
            yield from _headline(world)
            if world in FIRST_UNREAD:
                yield from _unread(world)


def _households(found: dict[str, Any]) -> Iterator[str]:
    goals, end = found["goals"], found["prompt_tokens_at_the_end"]
    yield (
        f"`households`: up to 40 goals in one house of ALFWorld, {end['least']:,} to "
        f"{end['most']:,} tokens; for {goals['share']:.0%} of {goals['of']} goals a thing that "
        f"would do was seen before, and stands only outside the floor ({found['tasks']} "
        f"{found['split']} tasks)."
    )


def _chains(found: dict[str, Any]) -> Iterator[str]:
    requests, end = found["requests"], found["prompt_tokens_at_the_end"]
    lost = found["requests that need what nothing shows again"]
    yield (
        f"`chains`: 16 to 30 requests in one house of ScienceWorld, {end['least']:,} to "
        f"{end['most']:,} tokens (half of them {end['half']:,} or less); {requests['share']:.0%} "
        f"[{requests['low']:.0%}, {requests['high']:.0%}] of {requests['of']} requests need what "
        f"stands only outside the floor, {lost['share']:.0%} what nothing in the house shows again "
        f"({found['tasks']} {found['split']} tasks)."
    )


@cache
def _long_cells() -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(_read("long/report.json"))["cells"]
    return cells


def _long_table(world: str) -> Iterator[str]:
    sent = _tokens_a_call(world)
    yield f"| `{world}` | reward | steps | tokens a call | fewer, call by call | bill |"
    yield "|---|---|---|---|---|---|"
    for cell in (one for one in _long_cells() if one["environment"] == world):
        bill = cell["bills"]["claude-sonnet-4-5"]["ratio_to_none"]
        figures = [_bracketed(cell["reward"], 3), _bracketed(cell["steps"], 0)]
        figures += [f"{sent[cell['method']]:,.0f}"]
        figures += [_bracketed(cell["compression_by_call"], 2), _bracketed(bill, 2)]
        name = f"`{cell['method']}`, n = {cell['reward']['n']}"
        yield f"| {name} | {' | '.join(figures)} |"


def _tokens_a_call(world: str) -> dict[str, float]:
    """Return the tokens that each method sent, by call."""
    return {name: _by_call(list(own.values())) for name, own in _rows(world).items()}


@cache
def _rows(
    world: str, report: str = "long", backbone: str = "reader"
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return a backbone's episodes of a world in a report, by method and task."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    with gzip.open(FOLDER / report / "rows.jsonl.gz", "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            if (row.get("environment"), row.get("backbone")) == (world, backbone):
                found.setdefault(row["method"], {})[row["task"]] = row
    return found


def _by_call(rows: list[dict[str, Any]]) -> float:
    return sum(row["tokens_sent"] for row in rows) / sum(row["steps"] for row in rows)


FORMS, NEWEST, ALL = "agora_forms_worth", "floor_matched", "none"
"""The comparisons that were fixed before the runs: forms with the newest steps, and with all."""


def _headline(world: str) -> Iterator[str]:
    found = _rows(world)
    for other in (NEWEST, ALL):
        tasks = sorted(found.get(FORMS, {}).keys() & found.get(other, {}).keys())
        if len(tasks) < 2:
            continue
        ours, theirs = ([found[name][task] for task in tasks] for name in (FORMS, other))
        pairs = list(zip(ours, theirs, strict=True))
        more = _resampled([one["reward"] - two["reward"] for one, two in pairs])
        steps = sum(one["steps"] for one in ours) / sum(two["steps"] for two in theirs)
        kept = sum(one["reward"] for one in ours) / sum(two["reward"] for two in theirs)
        bills = [sum(row["bills"]["claude-sonnet-4-5"] for row in own) for own in (ours, theirs)]
        yield ""
        yield (
            f"`{FORMS}` and `{other}` on the {len(tasks)} tasks that both have played: reward "
            f"{more}, {kept:.3f} of it; {_by_call(ours):,.0f} and {_by_call(theirs):,.0f} tokens a "
            f"call ({_by_call(theirs) / _by_call(ours):.2f}x); steps {steps:.2f}x; bill "
            f"{bills[0] / bills[1]:.2f}x."
        )


FIRST_UNREAD = {"desk": "test-006", "shop_orders": "test-020", "chains": "test-010"}
"""In tasks before these, losses were read that forms or a reader were changed after."""
PAIRS = ((FORMS, NEWEST), ("agora_forms_4x", f"{NEWEST}_4x"))


def _unread(world: str) -> Iterator[str]:
    found = _rows(world)
    for pair in PAIRS:
        ours, theirs = (
            {
                task: row["reward"]
                for task, row in found.get(name, {}).items()
                if task >= FIRST_UNREAD[world]
            }
            for name in pair
        )
        tasks = sorted(ours.keys() & theirs.keys())
        if len(tasks) < 2:
            continue
        more = _resampled([ours[task] - theirs[task] for task in tasks])
        means = [_resampled([own[task] for task in tasks], sign="") for own in (ours, theirs)]
        yield ""
        yield (
            f"`{pair[0]}` and `{pair[1]}` on the {len(tasks)} tasks in which no loss had been "
            f"read before: {means[0]} and {means[1]}, {more}."
        )


def _resampled(values: list[float], *, sign: str = "+") -> str:
    """Return a mean with its interval, tasks drawn with replacement."""
    chance, count = random.Random(0), len(values)
    drawn = sorted(sum(chance.choices(values, k=count)) / count for _ in range(2_000))
    mean, low, high = (f"{one:{sign}.3f}" for one in (sum(values) / count, drawn[50], drawn[1949]))
    return f"{mean} [{low}, {high}]"


def _bracketed(figure: dict[str, float], digits: int) -> str:
    value, low, high = (f"{figure[name]:.{digits}f}" for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


PLAYER = "student"


def _player() -> Iterator[str]:
    cells = json.loads(_read("player/report.json"))["cells"]
    yield "## A language model that plays"
    yield ""
    yield (
        "ALFWorld, test games, a language model of 135 million weights that was "
        "[taught to play](guides/player.md) from whole histories. At every call a quarter of what "
        "lies outside the floor is kept ([report](results/player/report.md)). Fixed before the "
        "run: forms against the newest steps, and against everything. What keeps the player from "
        "repeating itself reads lines as well since it was first played: see the guide."
    )
    yield ""
    yield "| player | method | games won | steps | fewer tokens, call by call |"
    yield "|---|---|---|---|---|"
    for cell in (one for one in cells if one["backbone"] == PLAYER):
        figures = [_bracketed(cell["reward"], 2), _bracketed(cell["steps"], 1)]
        figures += [_bracketed(cell["compression_by_call"], 2)]
        name = f"`{cell['method']}`, n = {cell['reward']['n']}"
        yield f"| `{PLAYER}` | {name} | {' | '.join(figures)} |"
    yield ""
    yield "Differences in games won, on those that both methods have played:"
    yield ""
    yield f"| | `{PLAYER}` |"
    yield "|---|---|"
    rows = _rows("alfworld", "player", PLAYER)
    for one, other in ((FORMS, NEWEST), (FORMS, ALL), (NEWEST, ALL)):
        yield f"| `{one}` minus `{other}` | {_apart(rows, one, other)} |"


def _apart(rows: dict[str, dict[str, dict[str, Any]]], one: str, other: str) -> str:
    """Return the difference of two methods in reward, with the number of tasks."""
    tasks = sorted(rows[one].keys() & rows[other].keys())
    more = _resampled([rows[one][task]["reward"] - rows[other][task]["reward"] for task in tasks])
    return f"{more}, n = {len(tasks)}"


def _scorers() -> Iterator[str]:
    rows: list[dict[str, Any]] = json.loads(_read("scorer-features.json"))
    fresh = [row for row in rows if not row["stale_anchor"]]
    names = list(dict.fromkeys(row["scorer"] for row in fresh))
    yield "## How well scorers rank needed steps"
    yield ""
    yield (
        "AUC on tasks held out, recorded trajectories, labels from hindsight (a step is needed if "
        "the next action uses a name that only it had). The trained scorer learnt from labels of "
        "the same making, so this says how well it learnt them, not how an agent fares."
    )
    yield ""
    yield f"| trajectories | needed of pairs (tasks) | {' | '.join(names)} |"
    yield "|---" * (len(names) + 2) + "|"
    for place in dict.fromkeys(row["trajectories"] for row in fresh):
        own = {row["scorer"]: row for row in fresh if row["trajectories"] == place}
        first = own[names[0]]
        counts = f"{first['needed']:,} of {first['pairs']:,} ({first['tasks']})"
        cells = [_interval(own[name]["auc"]) for name in names]
        yield f"| {place} | {counts} | {' | '.join(cells)} |"


WORTH_RULES = (
    "newest",
    "commands first",
    "features",
    "rule per token",
    "worth",
    "worth, other kinds only",
    "labels (the limit)",
)


def _worth() -> Iterator[str]:
    found = [row for row in json.loads(_read("worth.json")) if "rule" in row]
    yield "### What the trained worth keeps"
    yield ""
    yield (
        "Share of what the next thirty actions need from outside the floor, names / copies of "
        "eight tokens, that is still there at 25 % of its tokens when a step stays whole, with its "
        "action alone, or not; validation half, mean over edits that need something. *worth* is "
        "trained on other tasks of all sources (coding: other repositories), *other kinds only* "
        "without the kind of agent it is asked about; the last column is what the labels "
        "themselves would keep. In brackets AUC within an edit, actions and observations."
    )
    yield ""
    yield f"| source (edits) | {' | '.join(WORTH_RULES)} |"
    yield "|---" * (len(WORTH_RULES) + 1) + "|"
    for source in dict.fromkeys(row["source"] for row in found):
        own = {row["rule"]: row for row in found if row["source"] == source}
        cells = [_kept(own[rule]) for rule in WORTH_RULES]
        yield f"| {source} ({own['newest']['edits']:,}) | {' | '.join(cells)} |"


def _kept(row: dict[str, Any]) -> str:
    kept = row["25%"]
    shares = " / ".join(f"{kept[kind]:.2f}" if kind in kept else "–" for kind in ("name", "copy"))
    auc = row.get("auc")
    return f"{shares} [{auc[0]:.2f}, {auc[1]:.2f}]" if auc else shares


def _least() -> Iterator[str]:
    rows = json.loads(_read("min-tokens.json"))
    sheets = list(rows[0]["generated"])
    yield "### Where editing begins"
    yield ""
    yield (
        f"`min_tokens`, by price: {rows[0]['recorded']['runs']} recorded coding runs (bill and "
        "tokens as a ratio to sending everything, calls all of whose names from earlier steps are "
        "still in the prompt), and the mean bill of 73 generated runs of 30 to 500 steps by price "
        "sheet."
    )
    yield ""
    heads = ["from", "bill", "tokens", "edits", "names in the prompt", *sheets]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        own = row["recorded"]
        cells = [f"{row['min_tokens']:,}", f"{own['bill']:.3f}", f"{own['tokens']:.3f}"]
        cells += [f"{own['edits']}", f"{own['calls_with_all_names']:.1%}"]
        cells += [f"{row['generated'][sheet]:.3f}" for sheet in sheets]
        yield f"| {' | '.join(cells)} |"


def _coverage() -> Iterator[str]:
    rows: list[dict[str, Any]] = json.loads(_read("coverage.json"))
    own = [row for row in rows if row["needed"] == "leaves"]
    shares = sorted({row["share"] for row in own})
    yield "## Is what the next call needs still in the prompt"
    yield ""
    yield (
        "Share of recorded calls all of whose argument values are still there, by how much of what "
        "lies outside the floor may stay. Being there does not mean that a model finds it."
    )
    yield ""
    heads = " | ".join(f"{share:.0%}" for share in shares)
    yield f"| domain (calls) | what stays | {heads} |"
    yield "|---" * (len(shares) + 2) + "|"
    for domain, stays in dict.fromkeys((row["domain"], row["what_stays"]) for row in own):
        found = {
            row["share"]: row
            for row in own
            if row["domain"] == domain and row["what_stays"] == stays
        }
        calls = next(iter(found.values()))["calls"]
        cells = [_interval([found[s]["covered"], *found[s]["interval"]]) for s in shares]
        yield f"| {domain} ({calls}) | {stays} | {' | '.join(cells)} |"


def fidelity(report: dict[str, Any], folder: str) -> Iterator[str]:
    """Yield what each method recovers, by source."""
    rows = [one for one in report["shares"] if (one["target"], one["keep"]) == ("action", 0.25)]
    sources = {one["source"]: one for one in report["passed"] if one["compared"]}
    yield (
        f"{report['model']}, {report['half']} half. **{report['verdict']}.** "
        f"[Report](results/{folder}/fidelity.md)."
    )
    yield ""
    heads = [f"{name} ({one['compared']} anchors)" for name, one in sources.items()]
    yield f"| method | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 1) + "|"
    for method in dict.fromkeys(one["method"] for one in rows):
        own = {one["group"]: one for one in rows if one["method"] == method}
        cells = [_recovered(own[name]) if name in own else "" for name in sources]
        yield f"| `{method}` | {' | '.join(cells)} |"
    yield ""


def _recovered(row: dict[str, Any]) -> str:
    share = row["share"]
    interval = _interval([share["value"], share["low"], share["high"]])
    return f"{interval}; {row['sent_outside']:.0%}"


PEERS = {
    "agora": "**AGORA**, default",
    "agora_every_call": "AGORA, every call",
    "newest_24000": "the newest steps that fit 24,000 tokens",
    "langchain_defaults": "LangChain `ClearToolUsesEdit`, defaults (from 100,000 tokens)",
    "langchain_24000": "the same, from 24,000",
    "litellm_defaults": "LiteLLM `compress()`, defaults (from 200,000)",
    "litellm_24000": "the same, from 24,000 to 12,000",
    "headroom_library": "Headroom `compress()`, library alone",
}
SHEETS = {
    "gpt-5": "gpt-5 (0.1 / 1)",
    "claude-sonnet-5": "claude-sonnet-5 (0.1 / 1.25)",
    "deepseek-v4-flash": "deepseek-v4-flash (0.02 / 1)",
    "self-hosted": "no cache (1 / 1)",
}


IN_SHORT = {
    "agora": "**AGORA**, default",
    "langchain_defaults": "LangChain, defaults",
    "langchain_24000": "LangChain from 24,000",
    "litellm_24000": "LiteLLM from 24,000",
    "headroom_library": "Headroom",
}


JUDGED = {"agora": ("judge-tools", "forms_now"), "langchain_24000": ("judge-test", "langchain")}
"""Whom the judge was asked about at the same 13 prompts, and which report has it."""


def peers_in_short() -> Iterator[str]:
    """Yield the table of the README: fewer rows and prices, means only, and what is kept."""
    rows = json.loads(_read("peers.json"))["methods"]
    yield "| | gpt-5 | claude-sonnet-5 | calls that break the cache | still found |"
    yield "|---|---|---|---|---|"
    for name, title in IN_SHORT.items():
        bills = [rows[name]["bill"][sheet] for sheet in ("gpt-5", "claude-sonnet-5")]
        broken = rows[name]["prefix_broken"]["gpt-5"]
        cells = [f"{sum(bill) / len(bill):.2f}" for bill in bills]
        cells.append(f"{sum(broken) / len(broken):.0%}")
        cells.append(_judged(*JUDGED[name]) if name in JUDGED else "–")
        yield f"| {title} | {' | '.join(cells)} |"


def _judged(folder: str, method: str) -> str:
    shares = json.loads(_read(f"{folder}/fidelity.json"))["shares"]
    wanted = (method, "kind:tools", "action")
    [found] = [s for s in shares if (s["method"], s["group"], s["target"]) == wanted]
    return f"{found['share']['value']:.0%}"


def peers() -> Iterator[str]:
    """Yield the table against peers, every row."""
    rows = json.loads(_read("peers.json"))["methods"]
    yield f"| | {' | '.join(SHEETS.values())} | calls that break the prefix |"
    yield "|---" * (len(SHEETS) + 2) + "|"
    for name, title in PEERS.items():
        bills = [rows[name]["bill"][sheet] for sheet in SHEETS]
        cells = [f"{sum(bill) / len(bill):.2f} ({max(bill):.2f})" for bill in bills]
        broken = rows[name]["prefix_broken"]["gpt-5"]
        yield f"| {title} | {' | '.join(cells)} | {sum(broken) / len(broken):.0%} |"


def _interval(values: list[float]) -> str:
    value, low, high = values
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def between(text: str, mark: str, lines: Iterator[str]) -> str:
    """Return a text with other lines between a mark and its end."""
    head, _, rest = text.partition(f"<!-- {mark} -->\n")
    _, _, tail = rest.partition(f"<!-- /{mark} -->")
    table = "\n".join(lines)
    return f"{head}<!-- {mark} -->\n{table}\n<!-- /{mark} -->{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(
        between(README.read_text(encoding="utf-8"), "peers", peers_in_short()), encoding="utf-8"
    )
