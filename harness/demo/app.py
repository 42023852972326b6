"""The demo's routes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from harness.demo import receipts
from harness.demo.notary import Notary
from harness.demo.pages import Asked, NotPlayable, Page
from harness.demo.runs import Mode, ReceiptPlace, Run, RunBusy, Runs
from harness.demo.security import OwnPagesOnly
from harness.scenarios import SCENARIOS
from interlock.errors import InterlockError, InvalidInput, UnknownAction

STATIC = Path(__file__).parent / "static"

_POLL_S = 0.05
_HEARTBEAT_S = 10.0
_MAX_BODY_BYTES = 4096
_LONGEST_NUMBER = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """What the routes work on.

    Args:
        pages: the pages that play runs, by name.
        runs: the runs.
        notary: signs the receipts of the journal that they are listed from.
        mode: what real runs are made of.
        missing: names of the keys that a live run would need and that are not there.
    """

    pages: Mapping[str, Page]
    runs: Runs
    notary: Notary
    mode: Mode
    missing: tuple[str, ...]


def build(demo: Demo, port: int) -> Starlette:
    """Return the application.

    Args:
        demo: what the routes work on.
        port: where it listens: requests for another host are turned away.
    """
    routes = _Routes(demo)
    return Starlette(
        routes=[
            Route("/", lambda _: RedirectResponse("/standalone")),
            Route("/standalone", routes.html),
            Route("/temporal", routes.html),
            Route("/receipts", lambda _: FileResponse(STATIC / "receipts.html")),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/api/keys", routes.keys),
            Route("/api/pages/{page}", routes.page),
            Route("/api/pages/{page}/runs", routes.start, methods=["POST"]),
            Route("/api/runs/{run}/events", routes.events),
            Route("/api/runs/{run}/stop", routes.stop, methods=["POST"]),
            Route("/api/runs/{run}/verify", routes.verify_run, methods=["POST"]),
            Route("/api/receipts", routes.receipts),
            Route("/api/receipts/one", routes.receipt),
            Route("/api/receipts/bundle", routes.bundle),
            Route("/api/receipts/verify", routes.verify, methods=["POST"]),
        ],
        middleware=[Middleware(OwnPagesOnly, port=port)],
        exception_handlers={
            HTTPException: _refused,
            UnknownAction: _not_found,
            InvalidInput: _bad_input,
            InterlockError: _journal_trouble,
        },
    )


class _Routes:
    """The handlers. Those that touch a journal or start something are plain functions, so that they run on threads."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._shell = Template((STATIC / "run.html").read_text(encoding="utf-8"))

    def html(self, request: Request) -> Response:
        name = request.url.path.strip("/")
        titles = {"standalone": "Plain worker processes", "temporal": "Workers on Temporal"}
        return HTMLResponse(self._shell.substitute(page=name, title=titles[name]))

    def keys(self, _: Request) -> Response:
        return JSONResponse({"mode": self._demo.mode, "missing": list(self._demo.missing)})

    def page(self, request: Request) -> Response:
        page = self._page(request)
        going_on, last = self._demo.runs.going_on, self._demo.runs.last_of(page.name)
        return JSONResponse(
            page.as_json()
            | {
                "missing": list(self._demo.missing),
                "run": last.as_json() if last else None,
                "busy": going_on.as_json() if going_on else None,
            }
        )

    async def start(self, request: Request) -> Response:
        page, asked = self._page(request), _asked(await _body(request))
        run = Run(page.name, page.mode_of(asked), asked.scenario, tuple(track.column for track in page.tracks_of(asked)))
        try:
            player = await asyncio.to_thread(page.player, asked)
            await asyncio.to_thread(self._demo.runs.start, run, player)
        except (RunBusy, NotPlayable) as error:
            return JSONResponse({"error": str(error)}, 409)
        return JSONResponse(run.as_json(), 201)

    async def stop(self, request: Request) -> Response:
        await _body(request)
        run = self._run(request)
        await asyncio.to_thread(self._demo.runs.stop, run)
        return JSONResponse(run.as_json())

    def events(self, request: Request) -> Response:
        run = self._run(request)
        last = request.headers.get("last-event-id", "0")
        after = int(last) if last.isdecimal() and len(last) <= _LONGEST_NUMBER else 0
        return StreamingResponse(self._stream(run, after), media_type="text/event-stream")

    async def verify_run(self, request: Request) -> Response:
        await _body(request)
        place = self._run(request).receipt
        if place is None:
            raise HTTPException(404, "this run has no receipt")
        return JSONResponse(await asyncio.to_thread(self._found, place))

    def receipts(self, request: Request) -> Response:
        listed = receipts.listed(self._demo.notary.journal_url, request.query_params)
        return JSONResponse(listed | {"mode": self._demo.mode})

    def receipt(self, request: Request) -> Response:
        return JSONResponse(receipts.shown(self._demo.notary.journal_url, request.query_params.get("key", "")))

    async def verify(self, request: Request) -> Response:
        key = (await _body(request)).get("key")
        if not isinstance(key, str):
            raise HTTPException(400, "key is missing")
        return JSONResponse(await asyncio.to_thread(self._found, ReceiptPlace(self._demo.notary.journal_url, key)))

    def bundle(self, request: Request) -> Response:
        key = request.query_params.get("key", "")
        content = self._demo.notary.bundle(key)
        name = "".join(character if character.isalnum() or character in "-_" else "-" for character in key)
        headers = {"content-disposition": f'attachment; filename="{name}.receipt.json"'}
        return Response(content, media_type="application/json", headers=headers)

    def _found(self, place: ReceiptPlace) -> dict[str, Any]:
        """Verify a receipt in its journal; and as a file, where it is not one of a mock, for which nobody signs."""
        found = receipts.verified(place.journal_url, place.key)
        if place.journal_url != self._demo.notary.journal_url:
            return found
        return found | receipts.checked(self._demo.notary, place.key)

    async def _stream(self, run: Run, after: int) -> AsyncIterator[str]:
        """Tell everything that happened in a run after an event, and what happens, until its end."""
        yield _sse("hello", run.as_json())
        silent_s = 0.0
        while True:
            over = not run.running  # read before the events, or the last ones could be missed
            for event in run.after(after):
                after, silent_s = event["id"], 0.0
                yield _sse("message", event, event_id=after)
            if over or self._demo.runs.closed:
                yield _sse("bye", run.as_json())
                return
            await asyncio.sleep(_POLL_S)
            silent_s += _POLL_S
            if silent_s >= _HEARTBEAT_S:
                silent_s = 0.0
                yield ": still here\n\n"

    def _page(self, request: Request) -> Page:
        page = self._demo.pages.get(request.path_params["page"])
        if page is None:
            raise HTTPException(404, "there is no such page")
        return page

    def _run(self, request: Request) -> Run:
        run = self._demo.runs.get(request.path_params["run"])
        if run is None:
            raise HTTPException(404, "there is no such run any more")
        return run


def _sse(kind: str, value: Any, event_id: int | None = None) -> str:
    number = "" if event_id is None else f"id: {event_id}\n"
    return f"event: {kind}\n{number}data: {json.dumps(value)}\n\n"


async def _body(request: Request) -> dict[str, Any]:
    """Return the body of a request that does something.

    Raises:
        HTTPException: it is too long, or no JSON object.
    """
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _MAX_BODY_BYTES:
            raise HTTPException(413, "that is too long")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise HTTPException(400, "the body is no JSON object")
    return body


def _asked(body: Mapping[str, Any]) -> Asked:
    scenario, third, mock = body.get("scenario"), body.get("third", False), body.get("mock", False)
    if not isinstance(scenario, str) or scenario not in SCENARIOS or not isinstance(third, bool) or not isinstance(mock, bool):
        raise HTTPException(400, "a run is asked for with scenario, third and mock")
    return Asked(scenario=scenario, third=third, mock=mock)


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for this class"
    return JSONResponse({"error": f"{error.detail}; nothing was done"}, error.status_code)


def _not_found(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 404)


def _bad_input(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


def _journal_trouble(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503)
