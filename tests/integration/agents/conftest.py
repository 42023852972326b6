"""Refund cases before an agent, in each of its forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import stripe

from harness.standins.anthropic.client import AnthropicStandIn
from harness.standins.stripe.client import StripeStandIn
from tests.refund_agent import FORMS, Form, RefundCase


@pytest.fixture(scope="module")
def model() -> Iterator[AnthropicStandIn]:
    """One model for the whole module; each client says how it behaves."""
    with AnthropicStandIn() as running:
        yield running


@pytest.fixture(params=FORMS, ids=str)
def case(
    request: pytest.FixtureRequest,
    model: AnthropicStandIn,
    standin: StripeStandIn,
    client: stripe.StripeClient,
    tmp_path: Path,
) -> RefundCase:
    """A case, in each form of the agent."""
    return RefundCase(request.param, model, standin, client, tmp_path)


@pytest.fixture
def one_case(model: AnthropicStandIn, standin: StripeStandIn, client: stripe.StripeClient, tmp_path: Path) -> RefundCase:
    """A case, where the form makes no difference."""
    return RefundCase(Form(awaited=False, stream=True), model, standin, client, tmp_path)
