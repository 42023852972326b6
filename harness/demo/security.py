"""Keeps other pages out: what a request must look like before any route sees it, and what every answer says to the browser.

Whatever page is open in the same browser can send requests to 127.0.0.1, and a name of its own that resolves to 127.0.0.1
(DNS rebinding) would make it the same origin. So the Host has to be ours, and whoever names an origin has to name ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_ANSWER_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_READING = frozenset(("GET", "HEAD"))
_OWN_SITE = frozenset(("same-origin", "none"))


class OwnPagesOnly:
    """Turns away what does not come from the demo's own pages.

    Args:
        app: what is behind it.
        port: where the demo listens.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = frozenset((f"127.0.0.1:{port}", f"localhost:{port}"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has no business here, and hand every other one on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope["method"], scope["path"], Headers(scope=scope))
        answer = self._app if refused is None else refused

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_ANSWER_HEADERS)
            await send(message)

        await answer(scope, receive, send_guarded)

    def _refusal(self, method: str, path: str, headers: Headers) -> JSONResponse | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _no(421, "this server answers to 127.0.0.1 and localhost with its port only")
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return _no(403, "a page of another origin can't use the demo")
        # A page is opened from anywhere, by a link. What the pages ask for, they ask for themselves.
        if path.startswith("/api/") and not _own_site(headers.getlist("sec-fetch-site")):
            return _no(403, "a page of another site can't use the demo")
        if method not in _READING and _media_type(headers.getlist("content-type")) != "application/json":
            return _no(415, "a request that does something is application/json")
        return None


def _own_site(sites: Iterable[str]) -> bool:
    return all(site in _OWN_SITE for site in sites)


def _media_type(content_types: list[str]) -> str:
    return content_types[0].partition(";")[0].strip().lower() if len(content_types) == 1 else ""


def _no(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": f"{why}; nothing was done"}, status)
