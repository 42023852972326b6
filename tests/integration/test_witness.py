"""The witness, over a real socket: what it cosigns, what it refuses, and what a crash or a race can't make it do."""

from __future__ import annotations

import hashlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from interlock.errors import InvalidConfiguration, JournalUnavailable
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.encoding import to_base64
from interlock.evidence.merkle import EMPTY_ROOT
from interlock.evidence.notes import NoteSignature, SignedNote, verify_note
from interlock.evidence.signing import NoteKey, verifier_of
from interlock.evidence.vkeys import KeyType, VerifierKey
from interlock.witness.client import Behind, Cosigned, Declines, Unreachable, WitnessAnswer, add_checkpoint
from interlock.witness.protocol import MAX_REQUEST_BYTES, Submission, Witness
from interlock.witness.server import WitnessServer
from interlock.witness.state import WitnessState
from tests.evidence_vectors import vectors
from tests.trees import Tree

ROOT = Path(__file__).resolve().parents[2]
ORIGIN = "acme.example/interlock/prod-1"
LOG = NoteKey(ORIGIN, KeyType.ED25519, hashlib.sha256(b"a log's key, for tests").digest())
WITNESS = NoteKey("witness.example/w1", KeyType.COSIGNATURE_V1, hashlib.sha256(b"a witness's key, for tests").digest())
STRANGER = NoteKey(ORIGIN, KeyType.ED25519, hashlib.sha256(b"a stranger's key, for tests").digest())
NOW_S = 1_700_000_000


@pytest.fixture
def state(tmp_path: Path) -> Iterator[WitnessState]:
    """Return the state of a new witness."""
    with WitnessState(tmp_path / "witness.db", WITNESS.key, create=True) as made:
        yield made


@pytest.fixture
def server(state: WitnessState) -> Iterator[WitnessServer]:
    """Return a witness that serves."""
    with WitnessServer(Witness(WITNESS, [LOG.key], state, lambda: NOW_S)) as running:
        yield running


def raw(server: WitnessServer, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str, str]:
    """Make a request as it is, and return status, type and body."""
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


def submit(server: WitnessServer, tree: Tree, size: int, old: int = 0) -> WitnessAnswer:
    """Ask for a cosignature of the first so many leaves."""
    return add_checkpoint(server.url, tree.note(LOG, size), old_size=old, proof=tree.consistency(old, size))


def test_the_steps_of_a_reference_witness(tmp_path: Path) -> None:
    """The nine published steps get the published answers, over a socket; but an unknown log gets 404, as is specified by now."""
    data = vectors("witness_add_checkpoint.json")
    log = VerifierKey(data["log_origin"], KeyType.ED25519, bytes.fromhex(data["log_ed25519_pub_hex"]))
    seed = bytes.fromhex(data["witness_ed25519_private_hex(seed||pub)"])[:32]
    key = NoteKey(data["witness_name"], KeyType.COSIGNATURE_V1, seed)
    with (
        WitnessState(tmp_path / "w.db", key.key, create=True) as state,
        WitnessServer(Witness(key, [log], state, lambda: NOW_S)) as server,
    ):
        answers = [raw(server, "POST", "/add-checkpoint", step["body"].encode()) for step in data["steps"]]
        latest = raw(server, "GET", f"/{hashlib.sha256(log.name.encode()).hexdigest()}/checkpoint")
    unknown = next(at for at, step in enumerate(data["steps"]) if "unknown log" in step["assert"])
    wanted = [step["status"] for step in data["steps"]]
    wanted[unknown] = 404
    assert [status for status, _, _ in answers] == wanted
    for step, (status, kind, body) in zip(data["steps"], answers, strict=True):
        if status == 409:
            assert step["assert"] == f"body == {json.dumps(body)}"
            assert kind == "text/x.tlog.size"
        if status == 200:
            note = SignedNote.parse(step["body"].partition("\n\n")[2].encode())
            (line,) = body.splitlines()
            cosigned = note.with_signatures(NoteSignature.parse(line))
            assert verify_note(cosigned, [verifier_of(key.key)])[0].at_s == NOW_S
    note = SignedNote.parse(latest[2].encode())
    assert Checkpoint.parse(note.text).size == data["final_size"]
    assert len(verify_note(note, [verifier_of(key.key), verifier_of(log)])) == 2


def test_a_log_that_grows(server: WitnessServer) -> None:
    """A log that only grows is cosigned at each size, and at a size it has already."""
    tree = Tree(300)
    old = 0
    for size in (1, 7, 7, 256, 300):
        answer = submit(server, tree, size, old)
        assert isinstance(answer, Cosigned)
        note = tree.note(LOG, size).with_signatures(*answer.signatures)
        assert {signed.key for signed in verify_note(note, [verifier_of(LOG.key), verifier_of(WITNESS.key)])} == {
            LOG.key,
            WITNESS.key,
        }
        old = size
    assert submit(server, tree, 300, 7) == Behind(300)


def test_another_history_is_refused(server: WitnessServer) -> None:
    """A fork of the same size, one that has grown past it, and a step back: 422, 422 and 400."""
    mine, other = Tree(40), Tree(40, other_from=5)
    assert isinstance(submit(server, mine, 20), Cosigned)
    statuses = []
    for size, proof in ((20, ()), (30, other.consistency(20, 30))):
        answer = add_checkpoint(server.url, other.note(LOG, size), old_size=20, proof=proof)
        assert isinstance(answer, Declines)
        statuses.append(answer.status)
    back = add_checkpoint(server.url, mine.note(LOG, 10), old_size=20, proof=())
    assert isinstance(back, Declines)
    assert [*statuses, back.status] == [422, 422, 400]
    assert isinstance(submit(server, mine, 30, 20), Cosigned)


def test_a_tree_without_leaves(server: WitnessServer) -> None:
    """A checkpoint without leaves needs the root of the empty tree, and what follows on it needs no proof."""
    wrong, right = (_signed(Checkpoint(ORIGIN, 0, root)) for root in (bytes(32), EMPTY_ROOT))
    refused = add_checkpoint(server.url, wrong, old_size=0, proof=())
    assert isinstance(refused, Declines)
    assert refused.status == 422
    assert isinstance(add_checkpoint(server.url, right, old_size=0, proof=()), Cosigned)
    with_proof = add_checkpoint(server.url, Tree(3).note(LOG, 3), old_size=0, proof=(bytes(32),))
    assert isinstance(with_proof, Declines)
    assert with_proof.status == 422
    assert isinstance(submit(server, Tree(3), 3), Cosigned)


def _signed(checkpoint: Checkpoint) -> SignedNote:
    return SignedNote(checkpoint.text, (LOG.sign(checkpoint.text),))


def test_who_signed(server: WitnessServer) -> None:
    """A stranger's signature is refused, also under the log's name and key id; beside the log's own it is dropped."""
    tree = Tree(3)
    stranger = tree.note(STRANGER, 3)
    spoofed = SignedNote(stranger.text, (NoteSignature(ORIGIN, LOG.key.key_id, stranger.signatures[0].signature),))
    for note in (stranger, spoofed):
        answer = add_checkpoint(server.url, note, old_size=0, proof=())
        assert isinstance(answer, Declines)
        assert answer.status == 403
    both = tree.note(LOG, 3).with_signatures(*stranger.signatures)
    assert isinstance(add_checkpoint(server.url, both, old_size=0, proof=()), Cosigned)
    _, _, text = raw(server, "GET", f"/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint")
    assert [one.key_id for one in SignedNote.parse(text.encode()).signatures] == [LOG.key.key_id, WITNESS.key.key_id]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old 0",
        b"old 00\n\nx",
        b"old -1\n\n",
        b"old 0\nnot base64\n\nnote",
        b"old 0\n\n" + b"\xff" * 10,
        b"old 0\n" + b"".join(to_base64(bytes(32)).encode() + b"\n" for _ in range(64)) + b"\n",
    ],
)
def test_what_is_no_request(server: WitnessServer, body: bytes) -> None:
    """What is malformed gets 400, and changes nothing."""
    assert raw(server, "POST", "/add-checkpoint", body)[0] == 400


def test_a_request_that_is_too_large(server: WitnessServer) -> None:
    """A body beyond the limit is refused unread, and so is one of unknown length."""
    assert raw(server, "POST", "/add-checkpoint", b"x", Content_Length=str(MAX_REQUEST_BYTES + 1))[0] == 413
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), timeout=10) as connection:
        connection.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 411 ")


def test_what_a_web_page_can_send(server: WitnessServer) -> None:
    """A request that a browser makes for a page is refused, and one for another host name, as of a rebound DNS name."""
    body = Submission(0, (), Tree(3).note(LOG, 3)).serialize()
    for headers in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Referer": "https://evil.example/"}):
        assert raw(server, "POST", "/add-checkpoint", body, Content_Type="text/plain", **headers)[0] == 403
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        assert raw(server, "POST", "/add-checkpoint", body, Host=host)[0] == 421
    assert raw(server, "GET", f"/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint")[0] == 404, "none was cosigned"
    for host in ("localhost", "127.0.0.1:80", "[::1]:80"):
        assert raw(server, "POST", "/add-checkpoint", body, Host=host)[0] in (200, 409)


def test_other_paths(server: WitnessServer) -> None:
    """Another path is not found, and another method not known."""
    assert raw(server, "POST", "/")[0] == 404
    assert raw(server, "GET", "/add-checkpoint")[0] == 404
    assert raw(server, "DELETE", "/add-checkpoint")[0] == 501


def test_it_listens_on_this_machine_alone(state: WitnessState) -> None:
    """An address that others reach is refused unless it is asked for, and so is what is no address."""
    witness = Witness(WITNESS, [LOG.key], state, lambda: NOW_S)
    for host in ("0.0.0.0", "::", "192.0.2.1", "localhost"):  # noqa: S104 - it must be refused
        with pytest.raises(InvalidConfiguration):
            WitnessServer(witness, host=host)


@pytest.fixture
def dribbling(server: WitnessServer) -> Iterator[list[socket.socket]]:
    """More connections than are served at once, each of which has sent a part of a request and goes on byte by byte."""
    port = urlsplit(server.url).port or 0
    with ExitStack() as opened:
        made = [opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)) for _ in range(80)]
        for connection in made:
            connection.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        ended = threading.Event()

        def dribble() -> None:
            while not ended.wait(0.5):
                for connection in made:
                    with suppress(OSError):  # it was hung up on
                        connection.sendall(b"x")

        thread = threading.Thread(target=dribble)
        thread.start()
        yield made
        ended.set()
        thread.join()


@pytest.mark.usefixtures("dribbling")
def test_requests_that_come_byte_by_byte_keep_nobody_waiting(server: WitnessServer) -> None:
    """Where all places are taken, the connection whose request is the longest in coming is hung up on."""
    assert isinstance(submit(server, Tree(9), 5), Cosigned)
    assert raw(server, "GET", f"/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint")[0] == 200


@pytest.mark.usefixtures("dribbling")
def test_requests_that_come_byte_by_byte_do_not_hold_the_end_up(server: WitnessServer) -> None:
    """The server ends although each of its places is taken, and others wait for one."""
    ending = threading.Thread(target=server._server.shutdown)
    ending.start()
    ending.join(timeout=10)
    assert not ending.is_alive()


def test_two_submissions_at_once(server: WitnessServer) -> None:
    """Of many checkpoints of two histories that come at once, those that are cosigned are all of one history."""
    trees = [Tree(64), Tree(64, other_from=0)]
    sizes = [3, 17, 32, 33, 50, 64]
    cosigned: list[tuple[int, int]] = []
    start = threading.Barrier(len(trees) * len(sizes))

    def race(number: int, size: int) -> None:
        start.wait()
        answer = submit(server, trees[number], size)
        while isinstance(answer, Behind) and answer.size <= size:
            answer = submit(server, trees[number], size, answer.size)
        if isinstance(answer, Cosigned):
            cosigned.append((number, size))

    threads = [threading.Thread(target=race, args=(number, size)) for number in (0, 1) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({number for number, _ in cosigned}) == 1
    assert len(cosigned) == len(set(cosigned))


def test_two_processes_on_one_state(tmp_path: Path, state: WitnessState) -> None:
    """A checkpoint that was judged on an older state is not put in its place: it is judged again, and refused."""
    mine, other = Tree(9), Tree(9, other_from=0)
    with WitnessState(tmp_path / "witness.db", WITNESS.key) as second:
        before = second.head(ORIGIN)
        first = Witness(WITNESS, [LOG.key], state, lambda: NOW_S)
        assert first.add_checkpoint(Submission(0, (), mine.note(LOG, 5)).serialize()).status == 200
        assert not second.advance(ORIGIN, before, other.note(LOG, 5))
        late = Witness(WITNESS, [LOG.key], second, lambda: NOW_S)
        assert late.add_checkpoint(Submission(0, (), other.note(LOG, 5)).serialize()).status == 409


DYING = """
import os, signal, sys
from pathlib import Path
from interlock.evidence.signing import NoteKey
from interlock.evidence.vkeys import VerifierKey
from interlock.witness.protocol import Witness
from interlock.witness.server import WitnessServer
from interlock.witness.state import WitnessState

class Dying:
    def __init__(self, state): self.state = state
    def head(self, origin): return self.state.head(origin)
    def advance(self, origin, before, note):
        if sys.argv[1] == "before": os.kill(os.getpid(), signal.SIGKILL)
        written = self.state.advance(origin, before, note)
        os.kill(os.getpid(), signal.SIGKILL)

key, log = NoteKey.parse(sys.argv[3]), VerifierKey.parse(sys.argv[4])
server = WitnessServer(Witness(key, [log], Dying(WitnessState(Path(sys.argv[2]), key.key)), lambda: 1))
print(server.url, flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_around_the_write(tmp_path: Path, when: str) -> None:
    """Killed after the write and before the answer, a witness stands by what it wrote; killed before it, nothing was said."""
    path = tmp_path / "witness.db"
    WitnessState(path, WITNESS.key, create=True).close()
    mine, other = Tree(9), Tree(9, other_from=0)
    arguments = [sys.executable, "-c", DYING, when, str(path), WITNESS.to_secret_text(), str(LOG.key)]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "it is a pipe"
        url = process.stdout.readline().strip()
        assert isinstance(add_checkpoint(url, mine.note(LOG, 5), old_size=0, proof=()), Unreachable)
        assert process.wait() == -signal.SIGKILL
    with WitnessState(path, WITNESS.key) as state, WitnessServer(Witness(WITNESS, [LOG.key], state, lambda: NOW_S)) as server:
        if when == "before":
            assert isinstance(submit(server, mine, 5), Cosigned)
            return
        assert submit(server, mine, 5) == Behind(5)
        assert isinstance(submit(server, mine, 5, 5), Cosigned)
        forked = add_checkpoint(server.url, other.note(LOG, 5), old_size=5, proof=())
        assert isinstance(forked, Declines)
        assert forked.status == 422


def test_a_state_that_is_lost_or_anothers(tmp_path: Path) -> None:
    """A witness does not begin anew by itself, nor go on with the state of another key, nor forget or step back by hand."""
    path = tmp_path / "witness.db"
    with pytest.raises(InvalidConfiguration, match="no state"):
        WitnessState(path, WITNESS.key)
    WitnessState(path, WITNESS.key, create=True).close()
    with pytest.raises(InvalidConfiguration, match="already"):
        WitnessState(path, WITNESS.key, create=True)
    other = NoteKey(WITNESS.name, WITNESS.type, STRANGER.seed)
    with pytest.raises(InvalidConfiguration, match="another"):
        WitnessState(path, other.key)
    with WitnessState(path, WITNESS.key) as state:
        tree = Tree(9)
        assert state.advance(ORIGIN, None, tree.note(LOG, 5))
        with pytest.raises(JournalUnavailable, match="step back"):
            state.advance(ORIGIN, tree.note(LOG, 5), tree.note(LOG, 4))
    path.write_bytes(b"not a database at all, and longer than a header would be" * 20)
    with pytest.raises(JournalUnavailable):
        WitnessState(path, WITNESS.key)


def test_a_witness_that_is_none() -> None:
    """Whatever a witness does wrong is an answer to the log, and no error."""
    note = Tree(3).note(LOG, 3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert isinstance(add_checkpoint(f"http://127.0.0.1:{port}", note, old_size=0, proof=()), Unreachable)
    assert isinstance(add_checkpoint("ftp://127.0.0.1", note, old_size=0, proof=()), Unreachable)
    for answer in (
        b"HTTP/1.1 200 OK\r\n\r\nnonsense",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 409 x\r\nContent-Type: text/x.tlog.size\r\n\r\n-5\n",
    ):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=_answer_once, args=(listening, answer))
            thread.start()
            told = add_checkpoint(f"http://127.0.0.1:{listening.getsockname()[1]}", note, old_size=0, proof=())
            thread.join()
        assert isinstance(told, Unreachable)


def _answer_once(listening: socket.socket, answer: bytes) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(answer)
