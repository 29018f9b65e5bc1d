"""The two ends of a session: the fake provider, and a tap in front of the gateway that records.

    python -m harness.agents.stage --record FOLDER --provider PORT --repository FOLDER --steps 45
    python -m harness.agents.stage --record FOLDER --tap PORT --gateway URL

Either end, or both at once.

The provider scripts one session per API key, refuses what a provider would refuse, bills from an
exact prefix cache and records its requests under RECORD/provider. On models that bind their
thinking it signs its thinking, and refuses or drops blocks that come back under another prompt;
`--binding` chooses which. The tap forwards bytes unchanged and records the agent's requests under
RECORD/agent. Both listen on loopback only.
"""

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from agora import sheet_for
from agora.core.prefix_cache import Bill, PrefixCache
from harness.agents import speech
from harness.agents.record import Request, header, write_request
from harness.agents.repository import source_files
from harness.agents.rules import binding, refusal
from harness.agents.script import Schemas, Turn, next_turn
from harness.agents.wire import Json, Route, cache_for, prompt_of, segments
from harness.signing import Place, Received, Signer, bound_name

_LONGEST = 1 << 30
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "content-length"})
_KEY_HEADERS = ("x-api-key", "authorization", "x-goog-api-key")


@dataclass(slots=True)
class Session:
    """The provider's state for one API key."""

    step: int = 0
    answers: int = 0
    caches: dict[str, PrefixCache] = field(default_factory=dict)

    def bill(self, route: Route, body: Json, model: str, at: float) -> Bill:
        """Return the usage of a prompt, by the cache of its family of models."""
        cache = self.caches.setdefault(sheet_for(model).name, cache_for(model))
        return cache.send(segments(prompt_of(route, body)), at)


@dataclass(slots=True)
class Provider:
    """The fake provider as a web application."""

    files: tuple[Path, ...]
    steps: int
    folder: Path
    sessions: dict[str, Session] = field(default_factory=dict)
    numbers: Iterable[int] = field(default_factory=lambda: itertools.count(1))
    signer: Signer = field(default_factory=Signer)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, and record it."""
        body = await request.read()
        asked = received(request, body, next(iter(self.numbers)))
        if request.headers.get("upgrade", "").lower() == "websocket":
            self._record(asked, 426, "an upgrade to WebSocket")
            return _refused("chat", "Upgrade Required", 426)
        if asked.route == "other":
            self._record(asked, 200)
            return web.json_response(_models(asked))
        said = asked.json
        if said is None:
            self._record(asked, 400, "not JSON")
            return _refused(asked.route, "We could not parse the JSON body of your request.", 400)
        betas = header(asked.headers, "anthropic-beta")
        problem = refusal(asked.route, said, betas)
        bound = Received() if problem else binding(asked.route, said, betas, self.signer)
        problem = problem or bound.refusal
        if problem:
            self._record(asked, 400, problem, bound=bound)
            return _refused(asked.route, problem, 400)
        session = self.sessions.setdefault(key_of(request), Session())
        if asked.route == "count_tokens" or ":countTokens" in asked.path:
            return self._counted(asked, without(said, bound.dropped), bound)
        usage = session.bill(asked.route, without(said, bound.dropped), asked.model, asked.at)
        self._record(asked, 200, usage=usage, bound=bound)
        reply = self._reply(session, asked, said, usage)
        if asked.route == "messages" and bound_name(asked.model):
            reply = self._bound(reply, said, betas, bound)
        return await self._speak(request, asked, said, reply)

    def _bound(self, reply: speech.Reply, said: Json, betas: str, bound: Received) -> speech.Reply:
        """Return the reply of a model that binds its thinking, and thinks unasked."""

        def think(text: str, before: Sequence[Json], redacted: bool) -> Json:
            return self.signer.think(said, text, betas=betas, before=before, redacted=redacted)

        return replace(
            reply,
            thinks=(said.get("thinking") or {}).get("type") != "disabled",
            think=think,
            transformations=bound.transformations if bound.reports else None,
        )

    def _counted(self, asked: Request, said: Json, bound: Received) -> web.Response:
        self._record(asked, 200, bound=bound)
        tokens = sum(segment.tokens for segment in segments(prompt_of(asked.route, said)))
        return web.json_response({"input_tokens": tokens, "totalTokens": tokens})

    def _reply(self, session: Session, asked: Request, said: Json, usage: Bill) -> speech.Reply:
        tools = offered(asked.route, said)
        turn = Turn(_aside(said))
        if tools:
            turn = next_turn(session.step, self.steps, self.files, tools)
            session.step += 1
        session.answers += 1
        thinking = said.get("thinking") or said.get("reasoning")
        return speech.Reply(
            turn=turn,
            model=asked.model,
            number=session.answers,
            usage=usage,
            writes=sheet_for(asked.model).write > 1,
            thinks=isinstance(thinking, dict) and thinking.get("type") != "disabled",
        )

    async def _speak(
        self, request: web.Request, asked: Request, said: Json, reply: speech.Reply
    ) -> web.StreamResponse:
        streams = bool(said.get("stream")) or ":stream" in asked.path
        head = {"x-request-id": f"req_{asked.number}", "request-id": f"req_{asked.number}"}
        match asked.route:
            case "messages":
                whole, events = speech.anthropic(reply), speech.anthropic_events(reply)
            case "responses":
                whole, events = speech.responses(reply), speech.responses_events(reply)
            case "gemini":
                whole = speech.gemini(reply)
                events = iter((speech.said("", whole),))
            case _:
                wanted = bool((said.get("stream_options") or {}).get("include_usage"))
                whole = speech.chat(reply)
                events = speech.chat_events(reply, with_usage=wanted)
        if not streams:
            return web.json_response(whole, headers=head)
        answer = web.StreamResponse(headers={**head, "content-type": "text/event-stream"})
        await answer.prepare(request)
        for event in events:
            await answer.write(event)
        await answer.write_eof()
        return answer

    def _record(
        self,
        asked: Request,
        status: int,
        verdict: str = "",
        usage: Bill | None = None,
        bound: Received | None = None,
    ) -> None:
        spent = (
            {}
            if usage is None
            else {
                "uncached": usage.uncached,
                "read": usage.read,
                "written": usage.written,
            }
        )
        thinking = {} if bound is None else blocks_of(bound)
        write_request(
            self.folder,
            Request(
                number=asked.number,
                at=asked.at,
                method=asked.method,
                path=asked.path,
                headers=asked.headers,
                body=asked.body,
                status=status,
                verdict=verdict,
                usage=spent,
                thinking=thinking,
            ),
        )


@dataclass(slots=True)
class Tap:
    """A recorder between agent and gateway."""

    gateway: str
    folder: Path
    client: aiohttp.ClientSession
    numbers: Iterable[int] = field(default_factory=lambda: itertools.count(1))

    async def hand_on(self, request: web.Request) -> web.StreamResponse:
        """Forward a request and its answer unchanged, and record both ends."""
        body = await request.read()
        asked = received(request, body, next(iter(self.numbers)))
        upgrade = request.headers.get("upgrade", "").lower() == "websocket"
        headers = [(k, v) for k, v in asked.headers if k.lower() not in _HOP_BY_HOP]
        if upgrade:
            headers.append(("Connection", "Upgrade"))
        status, back = 0, []
        try:
            async with self.client.request(
                asked.method,
                URL(self.gateway + asked.path, encoded=True),
                data=body if body or asked.method == "POST" else None,
                headers=headers,
                allow_redirects=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            ) as answer:
                status, back = answer.status, _decoded(answer.raw_headers)
                home = [(k, v) for k, v in back if k.lower() not in _HOP_BY_HOP]
                given = web.StreamResponse(status=status, headers=home)
                await given.prepare(request)
                async for piece in answer.content.iter_any():
                    await given.write(piece)
                await given.write_eof()
                return given
        except aiohttp.ClientError:
            # The gateway died: give the agent the error that it would see without a tap.
            if request.transport is not None:
                request.transport.abort()
            raise
        finally:
            known = {"status": status, "answer_headers": back}
            write_request(self.folder, received(request, body, asked.number, asked.at, **known))


def received(
    request: web.Request, body: bytes, number: int, at: float | None = None, **known: Any
) -> Request:
    """Return a request as it will be recorded."""
    return Request(
        number=number,
        at=time.time() if at is None else at,
        method=request.method,
        path=request.raw_path,
        headers=_decoded(request.raw_headers),
        body=body,
        **known,
    )


def key_of(request: web.Request) -> str:
    """Return the API key of a request, or an empty text."""
    for name in _KEY_HEADERS:
        if value := request.headers.get(name, ""):
            return value.removeprefix("Bearer ").strip()
    return request.query.get("key", "")


def without(said: Json, places: Iterable[Place]) -> Json:
    """Return an Anthropic request without its dropped blocks, which are not billed."""
    gone = frozenset(places)
    if not gone:
        return said
    messages = [
        {**message, "content": [b for m, b in enumerate(message["content"]) if (n, m) not in gone]}
        if isinstance(message.get("content"), list)
        else message
        for n, message in enumerate(said["messages"])
    ]
    return {**said, "messages": messages}


def blocks_of(bound: Received) -> Json:
    """Return the counts of kept, dropped and invalid thinking blocks, if there are any."""
    found = {
        "kept": len(bound.kept),
        "dropped": len(bound.dropped),
        "invalid": len(bound.invalid),
    }
    return found if any(found.values()) else {}


def offered(route: Route, said: Json) -> Schemas:
    """Return the tools that a request offers, with their schemas."""
    tools: list[Json] = list(said.get("tools") or ())
    if route == "gemini":
        found = [one for tool in tools for one in tool.get("functionDeclarations") or ()]
        return {
            one["name"]: one.get("parametersJsonSchema", one.get("parameters")) for one in found
        }
    if route == "messages":
        return {one["name"]: one.get("input_schema") for one in tools if "name" in one}
    if route == "chat":
        functions = [one["function"] for one in tools if one.get("type") == "function"]
        return {one["name"]: one.get("parameters") for one in functions}
    items = said.get("input")
    for item in items if isinstance(items, list) else ():
        # Codex' newer models get their tools as an item of the input.
        if item.get("type") == "additional_tools":
            tools += item.get("tools") or ()
    tools += [inner for one in tools for inner in one.get("tools") or ()]
    kinds = ("function", "custom")
    return {one["name"]: one.get("parameters") for one in tools if one.get("type") in kinds}


def _aside(said: Json) -> str:
    """Return the answer to a request without tools: usually a title, or a choice as JSON."""
    settings = said.get("generationConfig") or {}
    if settings.get("responseMimeType") == "application/json":
        return json.dumps(
            {
                "reasoning": "none",
                "next_speaker": "user",
                "model_choice": "flash",
                "complexity_reasoning": "none",
                "complexity_score": 10,
            }
        )
    return json.dumps({"title": "A title"}) if said.get("output_config") else "A title"


def _models(asked: Request) -> Json:
    if header(asked.headers, "anthropic-version"):
        model = {"type": "model", "id": "claude-sonnet-4-5", "display_name": "Claude"}
        return {"data": [model], "has_more": False, "first_id": None, "last_id": None}
    return {"object": "list", "data": [{"id": "gpt-5", "object": "model", "created": 1}]}


def _refused(route: Route, message: str, status: int) -> web.Response:
    kind = "invalid_request_error"
    if route in ("messages", "count_tokens"):
        error = {"type": "error", "error": {"type": kind, "message": message}}
        return web.json_response(error, status=status)
    if route == "gemini":
        said = {"code": status, "message": message, "status": "INVALID_ARGUMENT"}
        return web.json_response({"error": said}, status=status)
    said = {"message": message, "type": kind, "param": None, "code": None}
    return web.json_response({"error": said}, status=status)


def _decoded(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(key.decode("latin-1"), value.decode("latin-1")) for key, value in headers]


async def _serve(port: int, handler: Any) -> web.AppRunner:
    # Bodies are recorded as received, so nothing on the way may unpack them.
    app = web.Application(client_max_size=_LONGEST)
    app.router.add_route("*", "/{rest:.*}", handler)
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


async def _run(options: argparse.Namespace) -> None:
    async with aiohttp.ClientSession(
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0),
    ) as client:
        runners = []
        if options.provider is not None:
            files = source_files(options.repository)
            outcome = None if options.binding == "default" else options.binding
            folder = options.record / "provider"
            provider = Provider(files, options.steps, folder, signer=Signer(outcome))
            runners.append(await _serve(options.provider, provider.answer))
        if options.tap is not None:
            tap = Tap(options.gateway, options.record / "agent", client)
            runners.append(await _serve(options.tap, tap.hand_on))
        try:
            await asyncio.sleep(options.seconds)
        finally:
            for runner in runners:
                await runner.cleanup()


def main() -> None:
    """Serve until ended, or until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", type=int)
    parser.add_argument("--tap", type=int)
    parser.add_argument("--gateway", default="")
    parser.add_argument("--repository", type=Path)
    parser.add_argument("--steps", type=int, default=45)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--binding", choices=("error", "drop", "default"), default="default")
    parser.add_argument("--seconds", type=float, default=1_800)
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
