"""The guard that keeps live keys out of the harness."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.keys import (
    LiveKeyRefused,
    anthropic_key_from_environment,
    require_test_stripe_key,
    stripe_key_from_environment,
)

# Put together here, so that no scanner takes this file for one that holds a live key.
LIVE = "_live_"


@pytest.fixture
def install_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Empties the environment of keys and PATH; the function puts a `stripe` there that prints a configuration."""
    monkeypatch.delenv("STRIPE_SECRET_KEY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def install(printed: str) -> None:
        script = f"#!{sys.executable}\nimport sys\nprint({printed!r} if sys.argv[1:] == ['config', '--list'] else '')\n"
        binary = tmp_path / "stripe"
        binary.write_text(script, encoding="utf-8")
        binary.chmod(0o700)

    return install


@pytest.mark.parametrize("key", ["sk_test_local_1", "rk_test_local_1", "rkcs_test_local_1"])
def test_test_keys_pass_unchanged(key: str) -> None:
    """Secret, restricted and sandbox test keys are taken."""
    assert require_test_stripe_key(key) == key


@pytest.mark.parametrize(
    "key",
    [
        f"sk{LIVE}local_1",
        f"rk{LIVE}local_1",
        f"rkcs{LIVE}local_1",
        "pk_test_local_1",
        "SK_TEST_local_1",
        " sk_test_local_1",
        "sk_test_local_1\n",
        f"sk_test_local_1 sk{LIVE}local_1",
        "sk_test_****************local",
        "sk_test_",
        "whsec_local_1",
        "sk_local_1",
        "",
    ],
)
def test_anything_else_is_refused_without_an_echo(key: str) -> None:
    """Live, publishable, masked and malformed keys are refused, and the message does not hold them."""
    with pytest.raises(LiveKeyRefused) as caught:
        require_test_stripe_key(key)
    assert not key or key not in str(caught.value).replace("(sk_test_,", "")


def test_the_environment_goes_before_the_cli(install_cli: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """STRIPE_SECRET_KEY is used where it is set."""
    install_cli("[default]\ntest_mode_api_key = 'rk_test_local_cli'\n")
    monkeypatch.setenv("STRIPE_SECRET_KEY", "sk_test_local_env")
    assert stripe_key_from_environment() == "sk_test_local_env"


def test_a_live_key_in_the_environment_stops_everything(
    install_cli: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live key is an error, and not a reason to look for another key."""
    install_cli("[default]\ntest_mode_api_key = 'rk_test_local_cli'\n")
    monkeypatch.setenv("STRIPE_SECRET_KEY", f"sk{LIVE}local_env")
    with pytest.raises(LiveKeyRefused):
        stripe_key_from_environment()


@pytest.mark.skipif(os.name != "posix", reason="the stand-in for the CLI is a script with a #! line")
def test_the_cli_gives_its_test_key(install_cli: Callable[[str], None]) -> None:
    """Without the variable, the test key of the CLI's default profile is used."""
    masked = f"rk{LIVE}***********local"
    install_cli(
        f"color = ''\n\n[default]\nlive_mode_api_key = '{masked}'\ntest_mode_api_key = 'rk_test_local_cli'\n"
        "[other]\ntest_mode_api_key = 'rk_test_local_other'\n"
    )
    assert stripe_key_from_environment() == "rk_test_local_cli"


def test_a_live_key_from_the_cli_is_refused(install_cli: Callable[[str], None]) -> None:
    """What the CLI calls its test key is checked too."""
    install_cli(f"[default]\ntest_mode_api_key = 'sk{LIVE}local'\n")
    with pytest.raises(LiveKeyRefused):
        stripe_key_from_environment()


@pytest.mark.parametrize("printed", ["", "not logged in: run stripe login", "color = ''", "default = 1", "[default]\n"])
def test_a_cli_without_a_key_gives_none(install_cli: Callable[[str], None], printed: str) -> None:
    """A CLI that nobody logged in with is as good as none."""
    install_cli(printed)
    assert stripe_key_from_environment() is None


def test_no_variable_and_no_cli_is_none(install_cli: Callable[[str], None]) -> None:
    """Where there is no key anywhere, there is none."""
    del install_cli
    assert stripe_key_from_environment() is None


def test_the_models_key_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """ANTHROPIC_API_KEY is used, and an empty one is none."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-local-env")
    assert anthropic_key_from_environment() == "sk-ant-local-env"
    monkeypatch.setenv("ANTHROPIC_API_KEY", " ")
    assert anthropic_key_from_environment() is None
