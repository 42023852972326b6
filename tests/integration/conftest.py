"""The Stripe stand-in as the tests of the target share it; a module that needs another one has a fixture of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stripe

from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.sdk import connect


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeStandIn]:
    """One stand-in for the whole module; every test makes payments of its own."""
    with StripeStandIn(tmp_path_factory.mktemp("stripe") / "ledger.jsonl") as running:
        yield running


@pytest.fixture
def healthy(standin: StripeStandIn) -> Iterator[None]:
    """Whatever a test did to the stand-in is over when it ends."""
    yield
    standin.release()
    standin.reset_faults()


@pytest.fixture(scope="module")
def client(standin: StripeStandIn) -> stripe.StripeClient:
    """The SDK, to set up and to look from outside."""
    return connect(standin)
