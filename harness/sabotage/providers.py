"""Defects of what stands between the gate and a provider: sockets, writes, and what Stripe's answers are taken for."""

from __future__ import annotations

from harness.sabotage.defects import BURN, ENDS, HORIZON, Defect

_TRANSPORTS = "interlock/infrastructure/transports.py"
_CLIENT = "interlock/stripe/client.py"
_REFUNDS = "interlock/stripe/refunds.py"
_VERDICTS = "interlock/stripe/verdicts.py"

_TRANSPORT_TEST = "tests/integration/test_stripe_refunds_transport.py"
_READ_TEST = "tests/integration/test_stripe_refunds_read.py"
_SEND_TEST = "tests/integration/test_stripe_refunds_send.py"
_VERDICTS_TEST = "tests/unit/test_stripe_verdicts.py"
_FIELD_CASES_TEST = "tests/contract/test_field_cases_more.py"

_SOCKETS = (
    Defect(
        name="sockets-that-the-kernel-does-not-give-up",
        breaks=("rule 3", HORIZON),
        file=_TRANSPORTS,
        old="socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_S * 1000)",
        new="socket.TCP_USER_TIMEOUT, 0)",
        tests=(_TRANSPORT_TEST,),
    ),
    Defect(
        name="sockets-to-a-proxy-that-the-kernel-does-not-give-up",
        breaks=("rule 3", HORIZON),
        file=_TRANSPORTS,
        old="super().proxy_manager_for(proxy, socket_options=sending_options(), **proxy_kwargs)",
        new="super().proxy_manager_for(proxy, **proxy_kwargs)",
        tests=(_TRANSPORT_TEST,),
    ),
    Defect(
        name="write-that-does-not-ask-for-the-deadline",
        breaks=(HORIZON,),
        file=_TRANSPORTS,
        old="            if self._cut or self._deadline.remaining_s() <= 0:\n",
        new="            if self._cut:\n",
        tests=(_TRANSPORT_TEST,),
    ),
    Defect(
        name="write-of-a-request-that-was-given-up",
        breaks=(HORIZON, "I6"),
        file=_TRANSPORTS,
        old="            if self._cut or self._deadline.remaining_s() <= 0:\n",
        new="            if self._deadline.remaining_s() <= 0:\n",
        tests=(_TRANSPORT_TEST,),
    ),
    Defect(
        name="redirect-that-is-followed",
        breaks=("I1", "I6"),
        file=_TRANSPORTS,
        old="        del resp\n",
        new="        return super().get_redirect_target(resp)\n",
        tests=(_SEND_TEST,),
    ),
    Defect(
        name="retry-inside-the-sdk",
        breaks=("I1", "rule 1"),
        file=_CLIENT,
        old="max_network_retries=0",
        new="max_network_retries=2",
        tests=(_FIELD_CASES_TEST,),
    ),
)

_ANSWERS = (
    Defect(
        name="request-in-progress-read-as-not-sent",
        breaks=("I6",),
        file=_VERDICTS,
        old="        return Unknown(words_of(error), KeyState.IN_PROGRESS)\n",
        new="        return NotSent(words_of(error))\n",
        tests=(_VERDICTS_TEST,),
    ),
    Defect(
        name="no-of-somebody-on-the-way-read-as-the-providers",
        breaks=("I6",),
        file=_VERDICTS,
        old="    if error.http_status not in _DEFINITE_STATUSES or type_ not in _DEFINITE_TYPES:\n",
        new="    if error.http_status not in _DEFINITE_STATUSES:\n",
        tests=(_VERDICTS_TEST,),
    ),
    Defect(
        name="burn-that-was-turned-away-taken-for-a-used-key",
        breaks=(BURN, "I6"),
        file=_VERDICTS,
        old="    if isinstance(error, stripe.IdempotencyError):\n",
        new="    if isinstance(error, stripe.IdempotencyError | stripe.InvalidRequestError):\n",
        tests=(_VERDICTS_TEST,),
    ),
    Defect(
        name="any-answer-to-a-burn-burns",
        breaks=(BURN,),
        file=_VERDICTS,
        old='if reply.status == _OK and reply.body.get("object") == "payment_intent" and reply.body.get("id") == payment:',
        new="if reply.status == _OK:",
        tests=(_VERDICTS_TEST,),
    ),
    Defect(
        name="absence-on-a-payment-that-is-not-there",
        breaks=("I6",),
        file=_REFUNDS,
        old="            # That the payment is found, in the right mode, is what makes an empty list an absence.\n"
        "            self._client.read_payment(effect.subject, deadline)\n",
        new="",
        tests=(_READ_TEST,),
    ),
    Defect(
        name="payment-of-another-mode",
        breaks=("I6",),
        file=_CLIENT,
        old='        if body.get("livemode") is not self._livemode:\n',
        new='        if body.get("livemode") is None:\n',
        tests=(_READ_TEST,),
    ),
    Defect(
        name="refund-of-another-action-taken-for-ours",
        breaks=(ENDS, "I10"),
        file=_REFUNDS,
        old="if marks.action_of(metadata_of(one)) == action_id.hex]",
        new="if marks.action_of(metadata_of(one))]",
        tests=(_READ_TEST,),
    ),
    Defect(
        name="two-refunds-with-our-mark-told-as-one",
        breaks=("I2", "I10"),
        file=_REFUNDS,
        old="    if len(ours) == 1:\n",
        new="    if ours:\n",
        tests=(_READ_TEST,),
    ),
    Defect(
        name="refund-in-another-currency-is-ours",
        breaks=("I5",),
        file="interlock/stripe/evidence.py",
        old='        "currency": (effect.parameters.currency, body.get("currency")),\n',
        new="",
        tests=(_VERDICTS_TEST,),
    ),
)

DEFECTS: tuple[Defect, ...] = (*_SOCKETS, *_ANSWERS)
