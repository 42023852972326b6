"""Starts the stand-in, or attaches to a running one, and switches its behaviour. Standard library only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

LOCAL_API_KEY = "sk-ant-local-0000"
_ROOT = Path(__file__).resolve().parents[3]
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR")
_CONTROL_TIMEOUT_S = 10


class AnthropicControl:
    """The switches of a stand-in that runs already, perhaps started by another process.

    Attributes:
        base_url: The `base_url` for the SDK.
        control_url: The address of the control port.
        pid: The process id.
        handshake: The JSON line that the stand-in printed at its start.
    """

    def __init__(self, handshake: str) -> None:
        said = json.loads(handshake)
        self.handshake = handshake.strip()
        self.base_url, self.control_url, self.pid = str(said["api"]), str(said["control"]), int(said["pid"])

    def behave(self, behaviour: str, *, payment: str | None = None, times: int | None = None, retry_after_s: float = 1) -> None:
        """Switch the model's behaviour.

        Args:
            behaviour: A value of `behaviours.Behaviour`.
            payment: Only where the conversation is about this payment; None for all.
            times: For how many changed answers; None until the next `behave` or `reset`.
            retry_after_s: What `rate_limit_429` asks for.
        """
        rule = {"behaviour": behaviour, "payment": payment, "times": times, "retry_after_s": retry_after_s}
        self._control("POST", "/behaviour", rule)

    def reset(self) -> None:
        """Make the model normal again."""
        self._control("POST", "/reset", {})

    def requests(self) -> list[dict[str, Any]]:
        """The requests that the API got, oldest first, without keys and messages."""
        requests: list[dict[str, Any]] = self._control("GET", "/requests", None)["requests"]
        return requests

    def _control(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        # Imported here, because a worker that only needs the addresses should not pay for it.
        from http.client import HTTPConnection

        connection = HTTPConnection(urlsplit(self.control_url).netloc, timeout=_CONTROL_TIMEOUT_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(f"the stand-in refused {method} {path}: {answer.get('error')}")
        return answer


class AnthropicStandIn(AnthropicControl):
    """A local Messages API in a process of its own; as a context manager it is stopped at the end."""

    def __init__(self, *, seed: int | None = None) -> None:
        """Start the process, which dies with this one, and wait until it listens.

        Args:
            seed: Makes the model's wording repeatable; None for new words in every run.

        Raises:
            RuntimeError: The process ended before it said where it listens.
        """
        command = [sys.executable, "-m", "harness.standins.anthropic"]
        if seed is not None:
            command += ["--seed", str(seed)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment())
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            self.close()
            raise RuntimeError("the Anthropic stand-in ended before it listened; its error is on standard error")
        super().__init__(line)

    @staticmethod
    def attach(handshake: str) -> AnthropicControl:
        """The switches of a stand-in that runs already, by the JSON line that it printed."""
        return AnthropicControl(handshake)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _environment() -> dict[str, str]:
    # A stand-in has no use for anybody's keys, so it inherits none.
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | {"PYTHONPATH": str(_ROOT)}
