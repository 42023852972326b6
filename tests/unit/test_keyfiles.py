"""Keys in files: one role each, for their owner alone, and nothing of a secret in a message."""

import os
import subprocess
from pathlib import Path

import pytest

from interlock.errors import InvalidConfiguration, UnsafeKeyFile
from interlock.evidence.vkeys import KeyType, VerifierKey
from interlock.keyfiles import (
    KeyFile,
    Role,
    create_key,
    describe_key,
    list_keys,
    read_attestor_key,
    read_log_key,
    read_witness_key,
)

READERS = {Role.LOG: read_log_key, Role.WITNESS: read_witness_key, Role.ATTESTOR: read_attestor_key}
NAMES = {Role.LOG: "test.example/log", Role.WITNESS: "w.example", Role.ATTESTOR: ""}


def made(folder: Path, role: Role) -> KeyFile:
    """Return a new key of a role."""
    return create_key(role, folder / "keys", NAMES[role])


@pytest.mark.parametrize("role", Role)
def test_a_key_is_for_its_owner_alone(tmp_path: Path, role: Role) -> None:
    """The file has mode 0600, its folder 0700, and it is read back as what was made."""
    key = made(tmp_path, role)
    assert key.path.stat().st_mode & 0o777 == 0o600
    assert key.path.parent.stat().st_mode & 0o777 == 0o700
    READERS[role](key.path)
    assert describe_key(key.path) == key
    assert list_keys(key.path.parent) == [key]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, role: Role, mode: int) -> None:
    """A wider mode of the file is refused, and the message says what to do."""
    key = made(tmp_path, role)
    key.path.chmod(mode)
    with pytest.raises(UnsafeKeyFile, match="chmod 0600"):
        READERS[role](key.path)


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    """Whoever can write to the folder can replace the key."""
    key = made(tmp_path, Role.LOG)
    key.path.parent.chmod(0o755)
    with pytest.raises(UnsafeKeyFile, match="chmod 0700"):
        read_log_key(key.path)
    with pytest.raises(UnsafeKeyFile):
        made(tmp_path, Role.LOG)


def test_a_link_is_refused(tmp_path: Path) -> None:
    """A link may lead to another key tomorrow."""
    key = made(tmp_path, Role.LOG)
    link = key.path.with_name("link.key")
    link.symlink_to(key.path)
    with pytest.raises(UnsafeKeyFile, match="link"):
        read_log_key(link)


@pytest.mark.timeout(10)
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """It would be waited for until somebody writes into it."""
    pipe = made(tmp_path, Role.LOG).path.with_name("pipe.key")
    os.mkfifo(pipe, 0o600)
    with pytest.raises(UnsafeKeyFile, match="not what a key is kept in"):
        read_log_key(pipe)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    """Its owner could read it."""
    key = made(tmp_path, Role.LOG)
    os.chown(key.path, 65534, -1)
    with pytest.raises(UnsafeKeyFile, match="another user"):
        read_log_key(key.path)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("other", Role)
def test_a_key_is_used_in_its_own_role_only(tmp_path: Path, role: Role, other: Role) -> None:
    """What an Ed25519 key signs does not say in which role it did: a key of another role is refused."""
    if role is other:
        return
    key = made(tmp_path, role)
    with pytest.raises(InvalidConfiguration):
        READERS[other](key.path)


@pytest.mark.parametrize("role", Role)
def test_no_message_holds_a_secret(tmp_path: Path, role: Role) -> None:
    """A key that was damaged is named, and nothing of its content is."""
    key = made(tmp_path, role)
    secret = key.path.read_text(encoding="ascii")
    key.path.write_text(secret.replace("\n", "", 1)[:-7], encoding="ascii")
    with pytest.raises(InvalidConfiguration) as raised:
        READERS[role](key.path)
    parts = {secret[at : at + 12] for at in range(len(secret) - 12)} - {"PRIVATE+KEY+", "PRIVATE KEY-"}
    words = f"{raised.value} {raised.value.__cause__} {raised.value.__context__}"
    assert not [part for part in parts if part in words and part.strip("-") and part not in str(key.path) and "BEGIN" not in part]
    material = secret.splitlines()[1] if secret.startswith("-----BEGIN") else secret.split("+", 4)[-1].strip()
    assert len(material) > 40
    assert material not in repr(key)


def test_an_existing_key_is_never_written_over(tmp_path: Path) -> None:
    """Two keys have two files."""
    assert made(tmp_path, Role.LOG).path != made(tmp_path, Role.LOG).path


@pytest.mark.parametrize("name", ["", "has space", "has+plus", "ends.example-1"])
def test_a_name_that_no_log_can_have_is_refused(tmp_path: Path, name: str) -> None:
    """A log's name is one word, and has no epoch: that is added to it."""
    with pytest.raises(InvalidConfiguration):
        create_key(Role.LOG, tmp_path / "keys", name)


def test_the_log_signs_under_the_name_of_the_epoch(tmp_path: Path) -> None:
    """One key signs for all epochs, each under its own name, so that a checkpoint of one is none of another."""
    key = read_log_key(made(tmp_path, Role.LOG).path)
    first, second = key.key_for("test.example/log-1"), key.key_for("test.example/log-2")
    assert first.public == second.public
    assert first.key_id != second.key_id
    assert VerifierKey.parse(str(first)).type is KeyType.ED25519


def test_openssl_reads_an_attestors_key(tmp_path: Path) -> None:
    """It is PKCS#8, as other tools write it."""
    key = made(tmp_path, Role.ATTESTOR)
    done = subprocess.run(
        ["openssl", "pkey", "-in", str(key.path), "-pubout", "-outform", "DER"], capture_output=True, check=True
    )
    assert done.stdout == read_attestor_key(key.path).verifier.spki
