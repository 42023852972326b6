"""One conversation, without I/O: what counts as a decision, what is fired, what the model is told, and where it ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from interlock.anthropic import results
from interlock.anthropic.asking import Answer, Call
from interlock.anthropic.requests import Ask, Fire, Observe, Pause, ReadApproval, Recover
from interlock.anthropic.results import ToolAnswer
from interlock.anthropic.tools import ActingTool, AnyTool, ApprovedAction, ReadingTool, WrongArguments
from interlock.approvals import ApprovalView, ExternalApproval
from interlock.domain.answers import storable
from interlock.domain.effects import Effect
from interlock.domain.premises import Premise
from interlock.domain.requests import Protocol
from interlock.errors import (
    ActionMismatch,
    ApprovalNotUsable,
    InterlockError,
    InvalidConfiguration,
    InvalidEffect,
    InvalidInput,
    JournalError,
    ModelUnavailable,
    PremiseUnreadable,
    UnknownAction,
    UnknownTarget,
)
from interlock.infrastructure.clock import elapsing_s
from interlock.outcomes import InFlight, Outcome

if TYPE_CHECKING:
    from anthropic.types import MessageParam

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0
"""How long to wait before the model is asked again, where the service does not say; as the SDK does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one conversation may take.

    Args:
        turns: how many answers of the model.
        answer_tokens: how long one answer may be.
        tokens: how many tokens all answers may cost together, input and output.
        duration_s: for how long the model is asked, in seconds. A fire that was begun is not cut off.
        silence_s: for how long nothing may come from the service, in seconds.
        retries: how often one question is asked again, where the service is overloaded or can't be reached.
        fire_wait_s: for how long an action that is in flight is waited for, in seconds.

    Raises:
        InvalidConfiguration: a figure is negative, or no number.
    """

    turns: int = 8
    answer_tokens: int = 1024
    tokens: int = 200_000
    duration_s: float = 300.0
    silence_s: float = 60.0
    retries: int = 2
    fire_wait_s: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what would not be a limit."""
        for limit in fields(self):
            if not getattr(self, limit.name) >= 0:  # a NaN is no limit either
                raise InvalidConfiguration(f"{limit.name} must be zero or more, not {getattr(self, limit.name)!r}")


class End(StrEnum):
    """How a conversation ended."""

    FINISHED = "finished"
    """The model had nothing more to ask for."""
    NOT_ASKED = "not_asked"
    """All actions were recorded already, and the model was not asked."""
    DECLINED = "declined"
    """The model refused to go on."""
    CUT_OFF = "cut_off"
    """The last answer was not whole, and nothing of it counts."""
    OUT_OF_TURNS = "out_of_turns"
    OUT_OF_TOKENS = "out_of_tokens"
    OUT_OF_TIME = "out_of_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request of the model to act, and what it was answered.

    Args:
        tool: the tool's name.
        model: which model it was.
        message_id: of its answer.
        tool_use_id: of the request.
        arguments_json: the arguments as the model wrote them.
        wording: what it said beside them.
        answered: the tool result, as JSON text.
        is_error: whether what it asked for is not so.
    """

    tool: str
    model: str
    message_id: str
    tool_use_id: str
    arguments_json: str
    wording: str
    answered: str
    is_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a conversation came to.

    Args:
        end: how it ended. It says nothing about what was done.
        outcomes: what became of each action, by the tool's name, those included that were recorded before.
        asked: every request to act, in order.
        text: the model's last words.
        stop_reason: of the last answer; None where it was not whole, or none was given.
        turns: how many answers there were.
        tokens: what they cost together.
        messages: all messages, as the API takes them; the last answer is not among them.
    """

    end: End
    outcomes: Mapping[str, Outcome]
    asked: tuple[Asked, ...]
    text: str
    stop_reason: str | None
    turns: int
    tokens: int
    messages: tuple[MessageParam, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all conversations of an agent share."""

    model: str
    tools: Mapping[str, AnyTool]
    system: str | None
    limits: Limits
    stream: bool
    keep_wording: bool

    @classmethod
    def of(
        cls, model: str, tools: Iterable[AnyTool], system: str | None, limits: Limits, *, stream: bool, keep_wording: bool
    ) -> Setting:
        """Return the setting.

        Raises:
            InvalidConfiguration: no tool, or two of one name.
        """
        given = tuple(tools)
        named = {tool.name: tool for tool in given}
        if not given or len(named) != len(given):
            raise InvalidConfiguration("an agent needs tools, each with a name of its own")
        return cls(model=model, tools=named, system=system, limits=limits, stream=stream, keep_wording=keep_wording)

    def body(self, messages: list[MessageParam]) -> dict[str, Any]:
        """Return the arguments of the SDK's call."""
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.limits.answer_tokens,
            "messages": messages,
            "tools": [tool.as_param() for tool in self.tools.values()],
            # One request at a time: what several ask for together was decided before any of them was answered.
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        }
        return body if self.system is None else body | {"system": self.system}


@dataclass(slots=True)
class _SoFar:
    """What a conversation has come to so far."""

    messages: list[MessageParam]
    seen: dict[tuple[str, str], Premise] = field(default_factory=dict[tuple[str, str], Premise])
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    asked: list[Asked] = field(default_factory=list[Asked])
    turns: int = 0
    tokens: int = 0


class Talk:
    """One conversation.

    Args:
        setting: what it shares with others.
        prompt: the case.
        approved: what was approved, by the name of an acting tool.

    Raises:
        InvalidInput: a name that no acting tool has.
    """

    def __init__(self, setting: Setting, prompt: str, approved: Mapping[str, ApprovedAction]) -> None:
        for name in approved:
            if not isinstance(setting.tools.get(name), ActingTool):
                raise InvalidInput(f"no acting tool is called {name!r}; nothing was asked, written or sent")
        self._setting = setting
        self._limits = setting.limits
        self._approved = dict(approved)
        self._approvals: dict[str, ApprovalView] = {}
        self._so_far = _SoFar([{"role": "user", "content": prompt}])
        self._until_s = elapsing_s() + setting.limits.duration_s

    def run(self) -> Protocol[Conversation]:
        """End what is recorded, and then let the model decide on the rest."""
        for name, action in self._approved.items():
            yield from self._end_recorded(name, action)
        if self._approved and self._so_far.outcomes.keys() == self._approved.keys():
            return self._conversation(End.NOT_ASKED, None)
        yield from self._read_approvals()
        while True:
            if (over := self._over()) is not None:
                return self._conversation(over, None)
            answer = yield from self._ask()
            # Only this stop reason says that the requests are whole (docs.claude.com/en/api/handling-stop-reasons).
            if answer.stop_reason != "tool_use" or not answer.calls:
                return self._conversation(_end_of(answer), answer)
            yield from self._answer_all(answer)

    # --- before the model is asked

    def _end_recorded(self, name: str, action: ApprovedAction) -> Protocol[None]:
        """Bring an action to its end that an earlier run, perhaps a dead process, has begun: nobody decides it again."""
        until_s = elapsing_s() + self._limits.fire_wait_s
        while True:
            try:
                report = yield from Recover(action.key)
            except UnknownAction:
                return
            for error in report.failed.values():
                raise error
            for needed in report.skipped.values():
                raise UnknownTarget(f"{action.key!r} is recorded and needs the target {needed}, which is not registered here")
            (outcome,) = report.outcomes
            self._so_far.outcomes[name] = outcome
            left_s = until_s - elapsing_s()
            if not isinstance(outcome, InFlight) or left_s <= 0:
                return
            yield from Pause(min(max(outcome.retry_after_s, 0.01), left_s))

    def _read_approvals(self) -> Protocol[None]:
        for name, action in self._approved.items():
            if not isinstance(action.approval, ExternalApproval):
                self._approvals[name] = yield from ReadApproval(action.approval_id)

    # --- asking

    def _over(self) -> End | None:
        if self._so_far.turns >= self._limits.turns:
            return End.OUT_OF_TURNS
        if self._so_far.tokens >= self._limits.tokens:
            return End.OUT_OF_TOKENS
        return End.OUT_OF_TIME if elapsing_s() >= self._until_s else None

    def _ask(self) -> Protocol[Answer]:
        """Ask, and ask again where the service says so, as long as there is time: its own wishes have no limit."""
        body, retries_left, pause_s = self._setting.body(self._so_far.messages), self._limits.retries, _FIRST_PAUSE_S
        while True:
            silence_s = min(self._limits.silence_s, max(self._until_s - elapsing_s(), 1.0))
            try:
                answer = yield from Ask(body, self._setting.stream, silence_s, self._until_s)
            except ModelUnavailable as error:
                wait_s = pause_s if error.retry_after_s is None else error.retry_after_s
                if not retries_left or elapsing_s() + wait_s >= self._until_s:
                    raise
                yield from Pause(wait_s)
                retries_left, pause_s = retries_left - 1, min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                self._so_far.turns += 1
                self._so_far.tokens += answer.tokens
                return answer

    # --- answering

    def _answer_all(self, answer: Answer) -> Protocol[None]:
        """Answer every request of one answer, and take both into the messages.

        What is read here is a premise from the next answer on: the model had not seen it when it asked.
        """
        # Not by the requests' ids: whether those differ is up to the service.
        wanted = [self._wanted(call) for call in answer.calls]
        read: dict[tuple[str, str], Premise] = {}
        content: list[Any] = []
        for call, effect in zip(answer.calls, wanted, strict=True):
            tool = self._setting.tools.get(call.name)
            if isinstance(tool, ReadingTool):
                told = yield from self._read(tool, call, read)
            else:
                of_this_tool = [other for asked, other in zip(answer.calls, wanted, strict=True) if asked.name == call.name]
                told = yield from self._act(call, effect, of_this_tool, answer)
                self._so_far.asked.append(_asked(call, answer, told))
            result = {"type": "tool_result", "tool_use_id": call.id, "content": told.text}
            content.append(result | ({"is_error": True} if told.is_error else {}))
        self._so_far.seen.update(read)
        results_of_all: MessageParam = {"role": "user", "content": content}
        self._so_far.messages += [answer.param, results_of_all]

    def _read(self, tool: ReadingTool[Any], call: Call, read: dict[tuple[str, str], Premise]) -> Protocol[ToolAnswer]:
        try:
            premise = yield from Observe(tool, tool.parse(call.arguments_json))
        except WrongArguments as error:
            return results.not_read(str(error))
        except (JournalError, TypeError):  # the host's own
            raise
        except InterlockError as error:
            return results.not_read(str(error))
        except Exception as error:  # noqa: BLE001 - I4: it could not be read, and of a client's error only the class is told
            return results.not_read(f"it could not be read ({type(error).__name__})")
        read[premise.target, premise.subject] = premise
        return results.shown(premise.facts_json)

    def _wanted(self, call: Call) -> Effect[Any] | ToolAnswer:
        """Return what a request to act would come to, or why nothing is done for it."""
        tool, action = self._setting.tools.get(call.name), self._approved.get(call.name)
        if not isinstance(tool, ActingTool):
            return results.not_done("there is no such tool", f"use one of {', '.join(self._setting.tools)}")
        if action is None:
            return results.not_done("nobody has approved it in this case", results.NOTHING_MORE)
        try:
            effect = tool.effect(tool.parse(call.arguments_json))
        except (WrongArguments, InvalidInput) as error:
            return self._not_done(call.name, str(error))
        if (misfit := action.misfit(effect)) is not None:
            return self._not_done(call.name, misfit)
        if tool.reads_first and not self._premises_of(effect):
            readers = ", ".join(tool.name for tool in self._setting.tools.values() if isinstance(tool, ReadingTool))
            return self._not_done(call.name, f"you have not been shown {effect.subject} yet; read it first with {readers}")
        return effect

    def _act(
        self, call: Call, effect: Effect[Any] | ToolAnswer, of_this_tool: list[Effect[Any] | ToolAnswer], answer: Answer
    ) -> Protocol[ToolAnswer]:
        if isinstance(effect, ToolAnswer):
            return effect
        # A decision that contradicts itself is none.
        if any(other != effect for other in of_this_tool):
            return self._not_done(call.name, "you asked for different things in one answer; ask for one")
        before = self._so_far.outcomes.get(call.name)
        action = self._approved[call.name]
        fire = Fire(action, effect, self._premises_of(effect), self._decision(call, answer), self._limits.fire_wait_s)
        try:
            outcome = yield from fire
        except ActionMismatch:
            yield from self._end_recorded(call.name, action)
            return self._not_done(call.name, "something else was asked for under this approval before")
        except (ApprovalNotUsable, InvalidEffect, PremiseUnreadable) as error:
            return self._not_done(call.name, str(error))
        self._so_far.outcomes[call.name] = outcome
        return results.of_outcome(outcome, again=before is not None and not isinstance(before, InFlight))

    def _premises_of(self, effect: Effect[Any]) -> tuple[Premise, ...]:
        """Return what the model was shown last of the effect's subject: on that it decided."""
        return tuple(premise for (_, subject), premise in self._so_far.seen.items() if subject == effect.subject)

    def _not_done(self, name: str, why: str) -> ToolAnswer:
        before = self._so_far.outcomes.get(name)
        if before is not None:
            return results.not_done(why, results.NOTHING_MORE, before.receipt)
        return results.not_done(why, results.possible(self._approved[name], self._approvals.get(name)))

    def _decision(self, call: Call, answer: Answer) -> dict[str, Any]:
        """Return how the decision came about, for the receipt."""
        decision = {
            "model": answer.model,
            "message": answer.message_id,
            "tool_use": call.id,
            "tool": call.name,
            "arguments": storable(call.arguments_json),
        }
        return decision | ({"wording": storable(answer.text)} if self._setting.keep_wording else {})

    def _conversation(self, end: End, answer: Answer | None) -> Conversation:
        so_far = self._so_far
        return Conversation(
            end=end,
            outcomes=dict(so_far.outcomes),
            asked=tuple(so_far.asked),
            text=answer.text if answer else "",
            stop_reason=answer.stop_reason if answer else None,
            turns=so_far.turns,
            tokens=so_far.tokens,
            messages=tuple(so_far.messages),
        )


def _end_of(answer: Answer) -> End:
    return {"end_turn": End.FINISHED, "refusal": End.DECLINED}.get(answer.stop_reason or "", End.CUT_OFF)


def _asked(call: Call, answer: Answer, told: ToolAnswer) -> Asked:
    return Asked(
        tool=call.name,
        model=answer.model,
        message_id=answer.message_id,
        tool_use_id=call.id,
        arguments_json=call.arguments_json,
        wording=answer.text,
        answered=told.text,
        is_error=told.is_error,
    )
