"""The currencies that Stripe takes, and the steps in which it takes them (docs.stripe.com/currencies)."""

from __future__ import annotations

MAX_AMOUNT_MINOR = 99_999_999
"""Stripe takes amounts of up to eight digits."""

_THREE_DECIMAL_STEP = 10
_THREE_DECIMAL = frozenset(("bhd", "jod", "kwd", "omr", "tnd"))
_ZERO_DECIMAL = frozenset(
    ("bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "ugx", "vnd", "vuv", "xaf", "xof", "xpf")
)
_TWO_DECIMAL = frozenset(  # as a text, since a list of them would be a page long
    """
    aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bmd bnd bob brl bsd btn bwp byn bzd cad cdf chf cny cop crc
    cve czk dkk dop dzd egp etb eur fjd fkp gbp gel ghs gip gmd gtq gyd hkd hnl htg huf idr ils inr isk jmd kes kgs khr
    kyd kzt lak lbp lkr lrd lsl mad mdl mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd pab pen pgk php
    pkr pln qar ron rsd rub sar sbd scr sek sgd shp sle sos srd std svc szl thb tjs top try ttd twd tzs uah usd uyu uzs
    wst xcd xcg yer zar zmw
    """.split()  # noqa: SIM905 - as above
)

CURRENCIES = _ZERO_DECIMAL | _TWO_DECIMAL | _THREE_DECIMAL


def step_minor(currency: str) -> int:
    """Return what an amount has to be a multiple of, in the minor unit.

    Amounts in three-decimal currencies end in 0, refunds included. ISK, HUF, TWD and UGX have rules of their own for
    charges and payouts only, so a refund of what was charged is not held to them here.
    """
    return _THREE_DECIMAL_STEP if currency in _THREE_DECIMAL else 1
