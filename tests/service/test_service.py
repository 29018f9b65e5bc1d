"""The path of a request through the service, without a server around it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

pytest.importorskip("msgspec", reason="the extra gateway is not installed")

from agora.formats import read_request
from agora.logs import Usage
from agora.service import Call, Edited, Outcome, Service, settings_from
from harness.gateway.histories import chat, messages
from tests.service.bodies import PATHS, drawn, route_for

T = TypeVar("T")
ME = {"authorization": "Bearer sk-secret-key-of-mine"}
GREEDY = {"min_tokens": 0, "edits": "every_call"}


def run(work: Callable[[Service], Awaitable[T]], **tables: Any) -> T:
    """Do some work with a service whose worker is a thread."""
    limits = {"workers": 0, "deadline_ms": 20_000, **tables.pop("limits", {})}
    compression = {"min_tokens": 200, **tables.pop("compression", {})}
    settings = settings_from({"limits": limits, "compression": compression, **tables})

    async def main() -> T:
        service = Service(settings)
        try:
            return await work(service)
        finally:
            await service.close()

    return asyncio.run(main())


async def send(
    service: Service,
    body: Any,
    format: str = "openai",
    *,
    status: int = 200,
    usage: Usage | None = None,
    headers: dict[str, str] = ME,
) -> tuple[Call, Edited]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    call = service.receive(route_for(format), headers, raw)
    edited = await service.edit(call)
    service.finish(call, edited, Outcome(status=status, usage=usage))
    return call, edited


@pytest.mark.parametrize("format", PATHS)
def test_every_format_is_edited_as_the_library_edits_it(format: str) -> None:
    bodies = list(drawn(format, 60))

    async def work(service: Service) -> list[tuple[Call, Edited]]:
        return [await send(service, body, format, headers={**ME, "n": "1"}) for body in bodies]

    compressor = settings_from({"compression": GREEDY}).compressor()
    changed = 0
    for call, edited in run(work, compression=GREEDY, owners={"stand_down": False}):
        body = json.loads(call.body)
        request = read_request(body, format=format)
        compression = compressor.compress(
            request.messages,
            model=call.model,
            format=format,
            system=request.system,
            tools=request.tools,
            thinking=request.thinking,
        )
        if isinstance(request.messages, str) or edited.reason == "own_summary":
            assert edited.body is call.body
            continue
        assert edited.reason == str(compression.reason)
        assert json.loads(edited.body) == request.with_messages(compression.messages)
        assert edited.changed or edited.body is call.body
        changed += edited.changed
    assert changed > 5


def test_messages_that_stay_keep_their_bytes() -> None:
    whole = chat(30)
    spaced = json.dumps(whole, indent=3, ensure_ascii=True).encode()
    newest = json.dumps(whole["messages"][-1], indent=3).replace("\n", "\n      ").encode()

    _, edited = run(lambda service: send(service, spaced))

    assert edited.changed
    assert newest in edited.body


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"messages": 7}', b'{"messages": [1]}', b"[" * 100_000, b"\xff\xfe"],
)
def test_what_cannot_be_read_goes_out_as_it_came(body: bytes) -> None:
    padded = body + b" " * 100
    _, edited = run(lambda service: send(service, padded), compression={"min_tokens": 0})

    assert edited.body is padded or edited.body == padded
    assert not edited.changed


def test_a_late_call_continues_the_edit_in_force_with_its_new_messages() -> None:
    bodies = [chat(steps) for steps in (40, 41)]

    async def work(service: Service) -> tuple[Edited, Edited]:
        _, first = await send(service, bodies[0])
        service._workers.waiting = 10**6
        _, second = await send(service, bodies[1])
        return first, second

    first, second = run(work, compression=GREEDY)

    assert (first.reason, second.reason) == ("compressed", "saturated")
    sent = [json.loads(one.body)["messages"] for one in (first, second)]
    assert sent[1] == sent[0] + bodies[1]["messages"][-2:]


def test_a_known_call_needs_no_worker() -> None:
    bodies = [chat(steps) for steps in (40, 41)]

    async def work(service: Service) -> tuple[Edited, Edited]:
        _, first = await send(service, bodies[0])
        service._workers.waiting = 10**6
        _, second = await send(service, bodies[1])
        return first, second

    first, second = run(work)

    assert (first.reason, second.reason) == ("compressed", "compressed")
    sent = [json.loads(one.body)["messages"] for one in (first, second)]
    assert sent[1] == sent[0] + bodies[1]["messages"][-2:]


def test_what_an_agent_asks_for_again_is_counted_where_its_call_succeeds() -> None:
    async def work(service: Service) -> tuple[int, float, bytes]:
        body, later = chat(40), chat(42)
        # The agent's newest call is one that was shortened long ago.
        later["messages"][-2]["tool_calls"][0]["function"] = body["messages"][6]["tool_calls"][0][
            "function"
        ]
        await send(service, body)
        await send(service, later, status=500)
        await send(service, later)
        await send(service, later)
        return service.account.asked_again, service.account.expected_again, service.metrics()

    again, expected, metrics = run(work, compression={"forgetting": 0.0})

    assert (again, expected) == (1, 0.0)
    assert b"agora_asked_again_total 1.0" in metrics


def test_a_late_call_that_nobody_knows_goes_out_whole() -> None:
    async def work(service: Service) -> Edited:
        service._workers.waiting = 10**6
        return (await send(service, chat(40)))[1]

    edited = run(work)

    assert (edited.reason, edited.changed) == ("saturated", False)


def test_marks_for_a_cache_may_move_between_calls() -> None:
    def marked(steps: int) -> dict[str, Any]:
        body = messages(steps)
        body["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        return body

    async def work(service: Service) -> tuple[Edited, Edited]:
        _, first = await send(service, marked(40), "anthropic")
        service._workers.waiting = 10**6
        _, second = await send(service, marked(41), "anthropic")
        return first, second

    first, second = run(work)

    assert first.changed
    assert second.changed
    assert second.body.count(b'"cache_control"') == 1


def test_own_summaries_go_out_whole_and_change_nothing() -> None:
    words = "You are performing a CONTEXT CHECKPOINT COMPACTION. Hand over."
    asked = chat(40)
    asked["messages"].append({"role": "user", "content": words})

    async def work(service: Service) -> list[Edited]:
        return [(await send(service, body))[1] for body in (chat(40), asked, chat(41))]

    first, summary, third = run(work)

    assert (summary.reason, summary.changed) == ("own_summary", False)
    sent = [json.loads(one.body)["messages"] for one in (first, third)]
    assert sent[1][: len(sent[0])] == sent[0]


def test_a_bypassed_call_is_the_clients_own() -> None:
    headers = {**ME, "x-agora-bypass": "1"}
    call, edited = run(lambda service: send(service, chat(40), headers=headers))

    assert edited.body is call.body


def test_the_owner_is_a_hash_and_no_key_appears_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    async def work(service: Service) -> str:
        call, edited = await send(service, chat(40), usage=Usage(uncached=9_000, output=9))
        return f"{call.owner}{edited.headers}{service.metrics()!r}{service.account}"

    text = run(work) + caplog.text

    assert '"dollars"' in caplog.text
    assert "sk-secret" not in text
    assert "fn_77" not in text


def test_an_owner_whom_edits_cost_money_gets_no_new_ones_and_keeps_the_edit_in_force() -> None:
    dear = Usage(uncached=50_000, output=1)

    async def work(service: Service) -> tuple[Edited, Edited]:
        for _ in range(1_000):
            service._stand_down.add("t", -1.0)
        headers = {"x-team": "t"}
        _, new = await send(service, chat(40, seed=2), headers=headers, usage=dear)
        service._stand_down._owners.clear()
        await send(service, chat(40), headers=headers)
        for _ in range(1_000):
            service._stand_down.add("t", -1.0)
        _, known = await send(service, chat(41), headers=headers)
        return new, known

    new, known = run(work, owners={"header": "x-team"})

    assert (new.reason, new.changed) == ("stand_down", False)
    assert (known.reason, known.changed) == ("stand_down", True)


def test_shadow_sends_everything_and_accounts_for_what_it_would_have_saved() -> None:
    async def work(service: Service) -> tuple[list[Edited], Any]:
        sent = []
        for steps in range(40, 46):
            usage = Usage(read=20_000, uncached=500, output=10)
            sent.append((await send(service, chat(steps), usage=usage))[1])
            await asyncio.sleep(0.5)
        return sent, service.account

    sent, account = run(work, mode="shadow")

    assert not any(edited.changed for edited in sent)
    assert (account.calls, account.unchanged) == (6, {"shadow": 6})
    assert account.saved != 0


def test_an_experiment_edits_one_arm_and_counts_the_others() -> None:
    async def work(service: Service) -> dict[str, set[bool]]:
        found: dict[str, set[bool]] = {}
        for seed in range(24):
            body = chat(20)
            body["messages"][1]["content"] = f"Fix bug {seed}."
            call, edited = await send(service, body)
            found.setdefault(str(call.arm), set()).add(edited.changed)
        return found

    found = run(work, mode="experiment", experiment={"share": 0.5})

    assert found == {"agora": {True}, "everything": {False}}


def test_dollars_are_spent_by_usage_and_saved_as_never_editing_would_have_cost() -> None:
    """The estimate against two runs that a cache of our own bills, with edits and without."""
    calls = [messages(steps) for steps in range(1, 60)]

    def billed(prompts: list[Any]) -> list[Usage]:
        found, before = [], ""
        for prompt in prompts:
            text = json.dumps(prompt)
            same = next(
                (at for at, (a, b) in enumerate(zip(before, text, strict=False)) if a != b),
                min(len(before), len(text)),
            )
            found.append(Usage(read=same // 4, written=(len(text) - same) // 4, output=20))
            before = text
        return found

    async def work(service: Service) -> tuple[float, float, float]:
        sheet = service.settings.sheet("claude-sonnet-4-6")
        sent: list[Any] = []
        for body in calls:
            raw = json.dumps(body).encode()
            call = service.receive(route_for("anthropic"), ME, raw)
            edited = await service.edit(call)
            sent.append(json.loads(edited.body)["messages"])
            usage = billed(sent)[-1]
            service.finish(call, edited, Outcome(status=200, usage=usage))
        whole = [body["messages"] for body in calls]

        def cost(prompts: list[Any]) -> float:
            return sum(
                sheet.dollars(read=one.read, written=one.written, output=one.output)
                for one in billed(prompts)
            )

        return service.account.dollars, service.account.saved, cost(whole) - cost(sent)

    dollars, saved, true = run(work, compression={"min_tokens": 4_000})

    assert dollars > 0
    assert saved == pytest.approx(true, rel=0.05)
