"""The agents, sync and async: they perform what a conversation asks for. What is decided is in `conversation`."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from interlock.anthropic.asking import ask, ask_awaiting
from interlock.anthropic.conversation import Conversation, Limits, Setting, Talk
from interlock.anthropic.requests import Ask, Fire, Observe, Pause, ReadApproval, Recover
from interlock.async_gate import AsyncGate
from interlock.domain.premises import Premise
from interlock.domain.requests import Protocol, Request
from interlock.driver import drive
from interlock.gate import Gate

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic  # noqa: F401 - the annotations below are made of their names

    from interlock.anthropic.tools import AnyTool, ApprovedAction

C = TypeVar("C")
G = TypeVar("G", bound=Gate | AsyncGate)
R = TypeVar("R")


class _Agent(Generic[C, G]):
    """What both agents have: everything but how they wait."""

    def __init__(
        self,
        client: C | Callable[[], C],
        gate: G,
        *,
        model: str,
        tools: Iterable[AnyTool],
        system: str | None = None,
        limits: Limits | None = None,
        stream: bool = True,
        keep_wording: bool = False,
    ) -> None:
        self._given_client = client
        self._made: C | None = None
        self._gate = gate
        self._setting = Setting.of(model, tools, system, limits or Limits(), stream=stream, keep_wording=keep_wording)

    @property
    def _client(self) -> C:
        """The client; made when the model is asked for the first time."""
        if self._made is None:
            given: Any = self._given_client
            self._made = cast("C", given() if callable(given) else given)
        return self._made

    def _talk(self, prompt: str, approved: Mapping[str, ApprovedAction]) -> Protocol[Conversation]:
        return Talk(self._setting, prompt, approved).run()

    def _at_the_gate(self, request: Request[Any]) -> Any:
        """Return what the gate answers, or what has to be awaited for it."""
        match request:
            case Fire(action, effect, premises, decision, wait_s):
                return self._gate.fire(
                    action.key,
                    effect,
                    approval=action.approval,
                    premises=premises,
                    supersedes=action.supersedes,
                    decision=decision,
                    wait_s=wait_s,
                )
            case Recover(key):
                return self._gate.recover(key)
            case ReadApproval(approval_id):
                return self._gate.approval(approval_id)
            case _:
                raise AssertionError(f"nobody performs {type(request).__name__}")


class Agent(_Agent["Anthropic", Gate]):
    """A model in a Messages API loop whose tools stand behind a gate. Threads may share one.

    Args:
        client: the SDK's client, or a function that makes it when the model is asked for the first time: a program that was
            restarted, and only ends what is recorded, does not pay the seconds that importing the SDK takes.
        gate: what every action goes through.
        model: the model's name.
        tools: what the model is offered.
        system: the system prompt.
        limits: how much one conversation may take.
        stream: whether answers are streamed.
        keep_wording: whether the receipt also holds what the model said beside its request. It may hold personal data, which the
            log can't forget; the arguments as asked are kept in any case.

    Raises:
        InvalidConfiguration: no tool, or two of one name.
    """

    def run(self, prompt: str, *, approved: Mapping[str, ApprovedAction]) -> Conversation:
        """Let the model decide, and carry out what it asks for as far as it is approved.

        What is recorded under the keys is brought to its end first. Where that is so of all of them, the model is not asked:
        call this again after a crash.

        Args:
            prompt: the case, in words. What a customer wrote is information; quote it.
            approved: by the name of an acting tool, the one action that it may bring about.

        Returns:
            How the conversation ended, and what became of each action.

        Raises:
            InvalidInput: a name in `approved` that no acting tool has, or an approval that does not exist.
            ModelError: the model could not be asked. What was done before is recorded: run again.
            JournalError: the journal failed; see `Gate.fire`.
            OutcomeNotRecorded: it was sent, and could not be recorded; run again.
        """
        return drive(self._talk(prompt, approved), self._perform)

    def _perform(self, request: Request[Any]) -> Any:
        match request:
            case Ask():
                return ask(self._client, request)
            case Observe(tool, asked):
                return _premise(tool.observe(asked))
            case Pause(seconds):
                return time.sleep(seconds)
            case _:
                return self._at_the_gate(request)


class AsyncAgent(_Agent["AsyncAnthropic", AsyncGate]):
    """An `Agent` on an event loop, with an `AsyncAnthropic` and an `AsyncGate`. Tasks may share one.

    Reading tools that are no coroutines run on threads. Cancelling is a crash like any other: run again.
    """

    async def run(self, prompt: str, *, approved: Mapping[str, ApprovedAction]) -> Conversation:
        """Let the model decide, and carry out what it asks for as far as it is approved; see `Agent.run`."""
        return await _drive_awaiting(self._talk(prompt, approved), self._perform)

    async def _perform(self, request: Request[Any]) -> Any:
        match request:
            case Ask():
                return await ask_awaiting(self._client, request)
            case Observe(tool, asked):
                read = await asyncio.to_thread(tool.observe, asked)  # a coroutine function only makes its coroutine there
                return _premise(await read if inspect.isawaitable(read) else read)
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case _:
                return await self._at_the_gate(request)


async def _drive_awaiting(protocol: Protocol[R], perform: Callable[[Request[Any]], Any]) -> R:
    """Run a protocol to its end; see `drive`."""
    try:
        request = next(protocol)
        while True:
            try:
                answer = await perform(request)
            except Exception as error:  # noqa: BLE001 - it is handed on, not swallowed
                request = protocol.throw(error)
            else:
                request = protocol.send(answer)
    except StopIteration as stop:
        result: R = stop.value
        return result


def _premise(read: object) -> Premise:
    if not isinstance(read, Premise):
        if inspect.iscoroutine(read):
            read.close()
        raise TypeError(f"a reading tool returns what `target.observe` returns, not {type(read).__name__}")
    return read
