r"""What reading costs the judge, next to a bare loop over the same tensors and to llama.cpp.

    python -m lab.benchmarks.likelihood FOLDER [--gguf FILE] [--tokens 1024] [--rounds 5] \
        [--arithmetic auto] [--threads 2] [--json results.json]

The bare loop calls the model's body chunk by chunk and its head on the last tokens, and does
nothing else: no prefix is looked up or remembered. Both read the same tokens in turn, and CPU time
is compared, so other work on the machine disturbs both alike. llama.cpp (xllamacpp) reads a
prompt of as many tokens from the GGUF file the weights came from.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers.cache_utils import DynamicCache

from agora_lab.judge.likelihood import CHUNK_TOKENS, Likelihood, arithmetic, load

BAR = 0.95
"""Of the bare loop's speed."""
_SAID = 64


@torch.inference_mode()
def bare(model: Any, token_ids: Sequence[int]) -> float:
    """Read the tokens and return the nats of the last ones, with nothing around it."""
    cache = DynamicCache()
    states = []
    for start in range(0, len(token_ids) - 1, CHUNK_TOKENS):
        end = min(start + CHUNK_TOKENS, len(token_ids) - 1)
        hidden = model.model(
            input_ids=torch.tensor([token_ids[start:end]]), past_key_values=cache, use_cache=True
        ).last_hidden_state[0]
        states.append(hidden)
    last = torch.cat(states)[-_SAID:]
    chances = torch.log_softmax(model.lm_head(last).float(), -1)
    said = torch.tensor(token_ids[-_SAID:]).unsqueeze(1)
    return float(-chances.gather(1, said).sum())


def compare(judge: Likelihood, model: Any, tokens: int, rounds: int) -> dict[str, Any]:
    """Return the tokens per second of both, by CPU time and by the clock."""
    ours, theirs, clock = [], [], []
    for number in range(rounds + 1):
        token_ids = random.Random(number).choices(range(200, 40_000), k=tokens)
        began, start = time.process_time(), time.perf_counter()
        found = sum(judge.score(token_ids[:-_SAID], token_ids[-_SAID:]).nats)
        between, wall = time.process_time(), time.perf_counter() - start
        expected = bare(model, token_ids)
        end = time.process_time()
        if abs(found - expected) > 0.02 * abs(expected) + 0.1:
            raise SystemExit(f"the judge found {found:.2f} nats and the bare loop {expected:.2f}")
        if number:  # The first round warms up.
            ours.append(tokens / (between - began))
            theirs.append(tokens / (end - between))
            clock.append(tokens / wall)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "tokens": tokens,
        "rounds": rounds,
        "tokens_per_cpu_second": round(statistics.median(ours), 1),
        "bare_tokens_per_cpu_second": round(statistics.median(theirs), 1),
        "ratio": round(statistics.median(ratios), 3),
        "tokens_per_second": round(statistics.median(clock), 1),
    }


def llama_cpp(gguf: Path, tokens: int, threads: int) -> dict[str, Any]:
    """Return the tokens per second at which llama.cpp reads a prompt, by its own clock."""
    import urllib.request

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.n_ctx = tokens + 256
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = False
    params.port = 8139
    server = xllamacpp.Server(params)
    prompt = random.Random(0).choices(range(200, 40_000), k=tokens)
    body = json.dumps({"prompt": prompt, "n_predict": 1, "cache_prompt": False}).encode()
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{server.listening_address}/completion",
        data=body,
        headers={"Content-Type": "application/json"},
    )
    began = time.process_time()
    with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310
        timings = json.loads(answer.read())["timings"]
    spent = time.process_time() - began
    return {
        "llama_cpp_tokens_per_second": round(timings["prompt_per_second"], 1),
        "llama_cpp_tokens_per_cpu_second": round(tokens / spent, 1),
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--tokens", type=int, default=1_024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--arithmetic", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    chosen = arithmetic() if given.arithmetic == "auto" else given.arithmetic
    judge, _ = load(given.folder, arithmetic=chosen, threads=given.threads)
    found = {
        "model": given.folder.name,
        "arithmetic": chosen,
        "threads": given.threads,
        **compare(judge, judge.model, given.tokens, given.rounds),
    }
    if given.gguf:
        found |= llama_cpp(given.gguf, given.tokens, given.threads)
    table = Table("", "")
    for name, value in found.items():
        table.add_row(name.replace("_", " "), str(value))
    Console().print(table)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if found["ratio"] < BAR:
        raise SystemExit(f"{found['ratio']} of the bare loop's speed; the bar is {BAR}")


if __name__ == "__main__":
    main()
