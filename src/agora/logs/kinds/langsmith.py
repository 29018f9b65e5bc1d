"""LangSmith's runs, exported as JSON: the ones of type `llm` are calls of a model.

Messages are what the client traced: chat messages as OpenAI has them, or
LangChain's own, written as constructors. All become OpenAI chat messages.
"""

from collections.abc import Iterator
from typing import Any

from agora.adapters.rules.shape import as_list, as_object
from agora.logs.calls import LoggedCall
from agora.logs.chat import as_chat
from agora.logs.ordered import Fields, Ordered, read_ordered
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.usage import Usage, read_usage
from agora.logs.values import as_count, as_json, as_seconds, as_text

_OWN = ("trace_id", "dotted_order", "parent_run_id", "session_id", "child_runs", "start_time")


def fits(value: Any) -> bool:
    """Tell whether a record is a run."""
    fields = as_object(value)
    return "run_type" in fields and "inputs" in fields and any(key in fields for key in _OWN)


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Return the trajectories that the calls of each trace make up."""
    return read_ordered(
        records,
        Ordered(name, tally),
        tally,
        parts=_runs,
        call=_call,
        lacks="is no run: it has no run_type and inputs",
    )


def _runs(value: Fields) -> Iterator[Fields]:
    """Return a run and those below it, if it was exported with them."""
    stack = [value]
    while stack:
        run = stack.pop()
        if "run_type" in run and "inputs" in run:
            yield run
        stack += [as_object(one) for one in as_list(run.get("child_runs")) if as_object(one)]


def _call(run: Fields, record: Record, tally: Tally) -> LoggedCall | None:
    if run.get("run_type") not in ("llm", "chat_model"):
        tally.skip("the run is no call of a model")
        return None
    if run.get("error"):
        tally.skip("the call failed")
        return None
    inputs, outputs = as_object(as_json(run["inputs"])), as_object(as_json(run.get("outputs")))
    sent = as_list(inputs.get("messages", inputs.get("input")))
    if len(sent) == 1 and isinstance(sent[0], list):
        # LangChain calls with batches, which hold one conversation as good as always.
        sent = sent[0]
    if not sent:
        tally.skip("the run was traced without messages")
        return None
    extra = as_object(as_json(run.get("extra")))
    parameters = as_object(extra.get("invocation_params"))
    metadata = as_object(extra.get("metadata"))
    answered, usage = _answer(outputs)
    counted = as_count(run.get("completion_tokens"))
    messages = [message for one in sent for message in as_chat(one)]
    model = metadata.get("ls_model_name") or parameters.get("model") or inputs.get("model")
    return LoggedCall(
        format="openai",
        messages=messages,
        size=min(record.size, sum(len(as_text(m.get("content"))) for m in messages) + 200),
        tools=as_list(parameters.get("tools") or inputs.get("tools")) or None,
        model=model if isinstance(model, str) else None,
        answer=[message for one in answered for message in as_chat(one)],
        output_tokens=as_count(as_object(usage).get("output_tokens"))
        if counted is None
        else counted,
        usage=_usage(run, usage),
        at_seconds=as_seconds(run.get("start_time")),
        trace=as_text(run.get("trace_id") or run.get("id")),
        task=as_text(metadata.get("thread_id") or metadata.get("session_id")),
    )


def _answer(outputs: Fields) -> tuple[list[object], object]:
    """Return the answer, and what it says was used."""
    usage = outputs.get("usage_metadata", outputs.get("usage"))
    first = _first(_first(outputs.get("generations")))
    message = as_object(as_object(first).get("message"))
    if not message:
        choice = as_object(_first(outputs.get("choices")))
        found = outputs.get("message", outputs.get("output", _first(outputs.get("messages"))))
        message = as_object(choice.get("message", found))
    if not message and "role" in outputs:
        message = outputs
    inner = as_object(message.get("kwargs")) or message
    told = as_object(outputs.get("llm_output"))
    usage = inner.get("usage_metadata") or usage or told.get("token_usage")
    return ([message] if message else []), usage


def _first(value: object) -> object:
    """Return the first of a list; anything else as it is."""
    if isinstance(value, list):
        return value[0] if value else None
    return value


def _usage(run: Fields, usage: object) -> Usage | None:
    found = read_usage(usage)
    prompt = as_count(run.get("prompt_tokens"))
    if found is None and prompt:
        details = as_object(run.get("prompt_token_details"))
        found = Usage(prompt, min(as_count(details.get("cache_read")) or 0, prompt))
    return found
