"""What is wanted, once more: nothing here is read from what was run."""

from __future__ import annotations

COMMON = {
    "crash_after_commit": (2000, 1, "refunded"),
    "hand_refund_before_decision": (2500, 2, "refunded"),
    "hand_refund_during_outage": (2000, 1, "refused"),
    "unrelated_refund_during_outage": (2500, 2, "refunded"),
    "approval_revoked_during_outage": (0, 0, "refused"),
    "approval_revoked_after_commit": (2000, 1, "refunded"),
    "key_pruned_after_24h": (2000, 1, "refunded"),
    "key_lost_inside_window": (2000, 1, "refunded"),
}
GATE_ALONE = {
    "no_lookup_after_24h": (2000, 1, "ambiguous"),
    "hand_refund_during_outage (burn off)": (2000, 1, "refused"),
    "approval_revoked_during_outage (burn off)": (0, 0, "refused"),
}
WANTED = COMMON | GATE_ALONE
"""For each scenario: the amount in cents, in how many refunds, and the answer."""

STANDALONE = ("standard", "checked", "checked_with_our_rule", "interlock")
TEMPORAL = ("temporal", "temporal_checked", "temporal_interlock")
DEFAULTS = tuple(f"{name}_defaults" for name in TEMPORAL)
MATRICES = {"standalone": STANDALONE, "e2e": STANDALONE + TEMPORAL + DEFAULTS}
GATE = {"interlock", "temporal_interlock", "temporal_interlock_defaults"}
"""Columns with the gate in them: every row has to be as wanted, with a receipt."""
ALONE = {"interlock", "temporal_interlock"}
"""Columns with the rows that are the gate's alone."""
