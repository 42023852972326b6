"""One HTTP exchange, without a proxy of the environment: a host may have set one for something else entirely."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered.

    Args:
        status: of HTTP.
        content_type: what the body is, by its own word.
        body: the body.
    """

    status: int
    content_type: str
    body: bytes


def exchange(method: str, url: str, *, body: bytes | None = None, timeout_s: float, max_bytes: int) -> Answer:
    """Make a request, and follow no redirection.

    Args:
        method: GET or POST.
        url: an http or https address.
        body: what to send.
        timeout_s: how long each step of the network may take, in seconds.
        max_bytes: how much of an answer is read.

    Raises:
        OSError: the network failed.
        http.client.HTTPException: it does not speak HTTP.
        ValueError: the address is none, or the answer is larger.
    """
    parts = urlsplit(url)
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    if parts.scheme not in kinds or parts.hostname is None:
        raise ValueError("it is no http or https address")
    connection = kinds[parts.scheme](parts.hostname, parts.port, timeout=timeout_s)
    try:
        headers = {} if body is None else {"Content-Type": "text/plain; charset=utf-8"}
        connection.request(method, parts.path or "/", body, headers)
        response = connection.getresponse()
        answer = response.read(max_bytes + 1)
    finally:
        connection.close()
    if len(answer) > max_bytes:
        raise ValueError(f"it answered with more than {max_bytes} bytes")
    return Answer(response.status, response.headers.get("Content-Type", ""), answer)
