"""The check of the provider's rules: it holds on the stand-in, and it can fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.keys import stripe_key_from_environment
from harness.provider_check import RULES, Provider, Rule, checked, local_provider, report
from harness.standins.stripe.faults import FaultKind

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.says)
def test_a_rule_holds_on_the_stand_in(one: Rule) -> None:
    """Each rule by itself, on a fresh provider."""
    with local_provider() as provider:
        assert checked(one, provider) == "holds"


def test_a_rule_that_is_broken_is_reported() -> None:
    """A provider that executes under a burned key, forgets keys or answers with something else is found out."""
    with local_provider() as provider:
        assert provider.control is not None
        provider.control.arm(FaultKind.EMPTY_OBJECT, path_prefix="/v1/payment_intents/", times=1000)
        provider.control.arm(FaultKind.HTML_502, times=1000)
        broken = [rule for rule in RULES if checked(rule, provider).startswith("VIOLATED")]
        assert len(broken) > len(RULES) / 2
        assert not report("broken on purpose", provider)


def test_it_says_that_it_was_local() -> None:
    """Without a key it asks the stand-in alone, says so, and exits with 0."""
    environment = {**os.environ, "STRIPE_SECRET_KEY": "", "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-m", "harness.provider_check", "--local"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LOCAL" in done.stdout
    assert "Stripe itself was not asked" in done.stdout


def test_a_live_key_is_refused() -> None:
    """Nothing is sent with it, and it is not repeated."""
    environment = {**os.environ, "STRIPE_SECRET_KEY": "sk_live_local_fake"}
    command = [sys.executable, "-m", "harness.provider_check"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "sk_live" not in done.stdout + done.stderr


@pytest.mark.stripe_live
@pytest.mark.parametrize("one", [rule for rule in RULES if not rule.stand_in_only], ids=lambda one: one.says)
def test_a_rule_holds_at_stripe(one: Rule) -> None:
    """The same rules, in Stripe's test mode."""
    key = stripe_key_from_environment()
    if key is None:
        pytest.skip("no test key")
    assert checked(one, Provider(key, None, None)) == "holds"
