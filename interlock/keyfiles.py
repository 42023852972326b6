"""Keys in files: one for each role, readable by their owner alone.

A log's and a witness's key is the one line that Go's note package reads; an attestor's is PKCS#8 in PEM, which `openssl` reads. A
key that lives elsewhere (a service, a card) is given to the log as a `LogSigner`, and to whoever signs receipts as a
`dsse.EnvelopeSigner`.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from interlock.errors import InvalidConfiguration, MalformedEvidence, UnsafeKeyFile
from interlock.evidence.encoding import to_base64
from interlock.evidence.notes import NoteSignature
from interlock.evidence.signing import AttestorKey, NoteKey, new_seed
from interlock.evidence.vkeys import KeyType, VerifierKey, check_key_name
from interlock.infrastructure.high_water import sync_folder

FIRST_EPOCH = 1
_MAX_KEY_BYTES = 4096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_EPOCH = re.compile(r".*-[0-9]+")


class Role(StrEnum):
    """What a key is for. One key has one role: what Ed25519 signs does not say in which it did."""

    LOG = "log"
    ATTESTOR = "attestor"
    WITNESS = "witness"


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A key in a file, as others may see it.

    Args:
        role: what it is for.
        path: where it is.
        name: whose it is; empty for an attestor's, which has none.
        public: the public key: a witness's vkey, a log's vkey in its first epoch, an attestor's SubjectPublicKeyInfo in base64.
        key_id: what names it.
    """

    role: Role
    path: Path
    name: str
    public: str
    key_id: str


@dataclass(frozen=True, slots=True)
class LogKey:
    """A log's key from a file: a `LogSigner`. It signs under the name of the present epoch.

    Args:
        key: the secret key, under the log's identity.
    """

    key: NoteKey

    @property
    def identity(self) -> str:
        """Who the log is, whatever the epoch."""
        return self.key.name

    def key_for(self, origin: str) -> VerifierKey:
        """Return the public half under an origin's name."""
        return self._named(origin).key

    def sign(self, origin: str, text: str) -> NoteSignature:
        """Sign the text of a checkpoint under an origin's name."""
        return self._named(origin).sign(text)

    def _named(self, origin: str) -> NoteKey:
        return NoteKey(origin, KeyType.ED25519, self.key.seed)


def create_key(role: Role, folder: Path, name: str = "") -> KeyFile:
    """Make a key, in a file that only its owner can read.

    Args:
        role: what it is for.
        folder: where; made where it is missing, for its owner alone.
        name: of a log, its identity without an epoch, such as `acme.example/interlock/prod`; of a witness, its name; an attestor
            has none.

    Raises:
        InvalidConfiguration: a name that can't be one, or the file can't be written.
        UnsafeKeyFile: the folder is open to others.
    """
    _check_name(role, name)
    seed = new_seed()
    text = _pem(seed) if role is Role.ATTESTOR else NoteKey(name, _TYPES[role], seed).to_secret_text() + "\n"
    described = _described(role, folder, text.encode())
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_private(folder.lstat(), folder, is_kind=stat.S_ISDIR)
        fd = os.open(described.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)
    except OSError as error:
        raise InvalidConfiguration(f"no key can be made in {folder}: {error.strerror}") from None
    return described


def read_log_key(path: Path) -> LogKey:
    """Read a log's key.

    Raises:
        InvalidConfiguration: there is none, or it is of another role.
        UnsafeKeyFile: others could read or replace it.
    """
    return LogKey(_read_note_key(path, Role.LOG))


def read_witness_key(path: Path) -> NoteKey:
    """Read a witness's key.

    Raises:
        InvalidConfiguration: there is none, or it is of another role.
        UnsafeKeyFile: others could read or replace it.
    """
    return _read_note_key(path, Role.WITNESS)


def read_attestor_key(path: Path) -> AttestorKey:
    """Read an attestor's key.

    Raises:
        InvalidConfiguration: there is none, or it is of another kind.
        UnsafeKeyFile: others could read or replace it.
    """
    return _attestor_key(_read(path), path)


def list_keys(folder: Path) -> list[KeyFile]:
    """Return the keys of a folder, without their secrets.

    Raises:
        InvalidConfiguration: the folder or a file in it can't be read.
        UnsafeKeyFile: others could read or replace a key.
    """
    if not folder.is_dir():
        raise InvalidConfiguration(f"there is no folder {folder}")
    return [describe_key(path) for path in sorted(folder.glob("*.key"))]


def describe_key(path: Path) -> KeyFile:
    """Return what others may see of a key.

    Raises:
        InvalidConfiguration: it can't be read, or is none.
        UnsafeKeyFile: others could read or replace it.
    """
    data = _read(path)
    if data.startswith(b"-----BEGIN"):
        role = Role.ATTESTOR
    else:
        role = Role.WITNESS if _note_key(data, path).type is KeyType.COSIGNATURE_V1 else Role.LOG
    described = _described(role, path.parent, data)
    return KeyFile(role, path, described.name, described.public, described.key_id)


_TYPES = {Role.LOG: KeyType.ED25519, Role.WITNESS: KeyType.COSIGNATURE_V1}
_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
"""For a pipe in the place of a key, which would be waited for until somebody writes into it."""


def _check_name(role: Role, name: str) -> None:
    if role is Role.ATTESTOR:
        if name:
            raise InvalidConfiguration("an attestor's key has no name; nothing was made")
        return
    try:
        check_key_name(name)
    except MalformedEvidence as error:
        raise InvalidConfiguration(f"{error}; nothing was made") from None
    if role is Role.LOG and _EPOCH.fullmatch(name):
        raise InvalidConfiguration("a log's name does not end in a number: the epoch's is added to it; nothing was made")


def _described(role: Role, folder: Path, data: bytes) -> KeyFile:
    if role is Role.ATTESTOR:
        attestor = _attestor_key(data, folder)
        path = folder / f"{role}-{attestor.keyid[:8]}.key"
        return KeyFile(role, path, "", to_base64(attestor.verifier.spki), attestor.keyid)
    key = _note_key(data, folder)
    vkey = LogKey(key).key_for(f"{key.name}-{FIRST_EPOCH}") if role is Role.LOG else key.key
    return KeyFile(role, folder / f"{role}-{key.key.key_id.hex()}.key", key.name, str(vkey), vkey.key_id.hex())


def _pem(seed: bytes) -> str:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _read_note_key(path: Path, role: Role) -> NoteKey:
    key = _note_key(_read(path), path)
    if key.type is not _TYPES[role]:
        raise InvalidConfiguration(f"the key {path} is not that of a {role}; nothing was signed")
    return key


def _note_key(data: bytes, path: Path) -> NoteKey:
    # Nothing of the content reaches a message.
    try:
        return NoteKey.parse(data.decode("utf-8").removesuffix("\n"))
    except (MalformedEvidence, UnicodeDecodeError):
        raise InvalidConfiguration(f"{path} holds no key of a log or a witness; nothing was signed") from None


def _attestor_key(data: bytes, path: Path) -> AttestorKey:
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidConfiguration(f"{path} holds no Ed25519 key in PEM without a password; nothing was signed") from None
    return AttestorKey(key.private_bytes_raw())


def _read(path: Path) -> bytes:
    """Read a key's file, unless somebody else could have read it or put it there."""
    try:
        fd = os.open(path, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise UnsafeKeyFile(f"the key {path} is a link; nothing was signed. Name the file itself") from None
        raise InvalidConfiguration(f"the key {path} can't be read: {error.strerror}; nothing was signed") from None
    try:
        _require_private(os.fstat(fd), path, is_kind=stat.S_ISREG)
        _require_private(path.absolute().parent.stat(), path.parent, is_kind=stat.S_ISDIR)
        return os.read(fd, _MAX_KEY_BYTES)
    finally:
        os.close(fd)


def _require_private(status: os.stat_result, path: Path, *, is_kind: Callable[[int], bool]) -> None:
    if not is_kind(status.st_mode):
        raise UnsafeKeyFile(f"{path} is not what a key is kept in, but a link, a folder or a device; nothing was signed")
    if sys.platform == "win32":
        return
    if status.st_uid not in (os.getuid(), 0):
        raise UnsafeKeyFile(f"{path} belongs to another user, who could read or replace the key; nothing was signed")
    if status.st_mode & _OTHERS:
        asked = "0700" if stat.S_ISDIR(status.st_mode) else "0600"
        raise UnsafeKeyFile(f"{path} is open to other users; nothing was signed. Run `chmod {asked} {path}`")
