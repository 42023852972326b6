"""Which keys the harness may use: Stripe test keys only, looked up in the environment and in the Stripe CLI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib

DEFAULT_MODEL = "claude-haiku-4-5-20251001"
_TEST_KEY = re.compile(r"(?:sk|rk|rkcs)_test_[A-Za-z0-9_]+")
_CLI_TIMEOUT_S = 20


class LiveKeyRefused(Exception):
    """A Stripe key that is not a test key was offered to the harness; nothing was sent with it."""


def require_test_stripe_key(key: str) -> str:
    """Return `key` if it is a Stripe test key.

    The SDK itself takes live keys without a word, and the harness moves money on purpose.

    Raises:
        LiveKeyRefused: It is anything else. The message never holds the key.
    """
    if _TEST_KEY.fullmatch(key) is None:
        raise LiveKeyRefused(
            "The Stripe key is not a test key (sk_test_, rk_test_ or rkcs_test_). Nothing was sent with it. "
            "Use a test key from dashboard.stripe.com/test/apikeys."
        )
    return key


def stripe_key_from_environment() -> str | None:
    """The test key in `STRIPE_SECRET_KEY`, or else the one that the Stripe CLI was logged in with.

    Returns:
        The key, or None where there is none.

    Raises:
        LiveKeyRefused: The key found is not a test key. Another source is not tried then.
    """
    key = os.environ.get("STRIPE_SECRET_KEY", "").strip() or _stripe_cli_key()
    return require_test_stripe_key(key) if key else None


def anthropic_key_from_environment() -> str | None:
    """The key in `ANTHROPIC_API_KEY`, or None."""
    return os.environ.get("ANTHROPIC_API_KEY", "").strip() or None


def _stripe_cli_key() -> str | None:
    """`test_mode_api_key` of the CLI's default profile; the CLI prints its configuration as TOML."""
    binary = shutil.which("stripe")
    if binary is None:
        return None
    try:
        listed = subprocess.run(
            [binary, "config", "--list"],
            capture_output=True,
            text=True,
            timeout=_CLI_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
        profile = tomllib.loads(listed).get("default", {})
    except (OSError, subprocess.SubprocessError, tomllib.TOMLDecodeError):
        return None
    key = profile.get("test_mode_api_key") if isinstance(profile, dict) else None
    return key.strip() or None if isinstance(key, str) else None
