"""The harness's proxy misbehaves exactly as told."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from harness.proxy import LOOPBACK, CutAtByte, Direction, Link, Proxy

PATIENCE_S = 30.0
A_MOMENT_S = 0.1


class Echo:
    """A server that sends back what it gets, and notes how each connection ended."""

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.got = b""
        self.ends: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65_536):
                    self.got += data
                    connection.sendall(data)
                self.ends.append("ended")
            except ConnectionResetError:
                self.ends.append("reset")


@pytest.fixture
def echo() -> Iterator[Echo]:
    """A server."""
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    """A proxy before it."""
    with Proxy(echo.address) as one:
        yield one


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    """A connection through it."""
    with socket.create_connection((proxy.host, proxy.port), timeout=PATIENCE_S) as one:
        assert say(one, b"hello") == b"hello"
        yield one


def say(client: socket.socket, what: bytes) -> bytes:
    """Send something, and return as many bytes of the answer."""
    client.sendall(what)
    return hear(client, len(what))


def hear(client: socket.socket, count: int) -> bytes:
    """Return so many bytes, or fewer where the connection ends."""
    heard = b""
    while len(heard) < count and (data := client.recv(count - len(heard))):
        heard += data
    return heard


def until_reset(client: socket.socket) -> bytes:
    """Return what comes before a reset."""
    heard = b""
    try:
        while data := client.recv(1):
            heard += data
    except ConnectionResetError:
        return heard
    raise AssertionError("it ended, and was not reset")


def is_silent(client: socket.socket) -> bool:
    """Whether nothing comes for a moment."""
    client.settimeout(A_MOMENT_S)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(PATIENCE_S)
    return False


def the_link(proxy: Proxy) -> Link:
    """Return the only connection."""
    (link,) = proxy.links
    return link


def wait_until(seen: list[str], what: str) -> None:
    """Wait until the server has seen something."""
    until_s = time.monotonic() + PATIENCE_S
    while what not in seen:
        assert time.monotonic() < until_s, f"it saw {seen}"
        time.sleep(0.005)


def test_everything_passes(proxy: Proxy, client: socket.socket, echo: Echo) -> None:
    """Until told otherwise all bytes pass, both ways, and an end is an end."""
    assert say(client, b"x" * 300_000) == b"x" * 300_000
    assert the_link(proxy).forwarded == dict.fromkeys(Direction, 300_005)
    client.close()
    wait_until(echo.ends, "ended")


def test_it_listens_on_loopback_only(proxy: Proxy) -> None:
    """Nobody else reaches it."""
    assert proxy.host == "127.0.0.1"


def test_cut_resets_both_sides(proxy: Proxy, client: socket.socket, echo: Echo) -> None:
    """A cut is a reset, for the client and for the server."""
    the_link(proxy).cut()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    wait_until(echo.ends, "reset")


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize("direction", Direction)
def test_cut_at_a_byte(echo: Echo, direction: Direction, count: int) -> None:
    """A chosen number of bytes passes, and not one more."""
    cutter = CutAtByte()
    with Proxy(echo.address, lambda: cutter) as proxy, socket.create_connection((proxy.host, proxy.port), PATIENCE_S) as client:
        assert say(client, b"before") == b"before"
        cutter.arm(direction, count)
        client.sendall(b"after")
        passed = until_reset(client)
        wait_until(echo.ends, "reset")
        if direction is Direction.TO_SERVER:
            assert echo.got == b"before" + b"after"[:count]
        else:
            assert passed == b"after"[:count]
        with socket.create_connection((proxy.host, proxy.port), PATIENCE_S) as again:
            assert say(again, b"the next one passes") == b"the next one passes"


@pytest.mark.parametrize("direction", Direction)
def test_held_bytes_come_later(proxy: Proxy, client: socket.socket, direction: Direction) -> None:
    """What is held is kept, in one direction alone where one is named, and comes when it is released."""
    the_link(proxy).hold(direction)
    client.sendall(b"late")
    assert is_silent(client)
    the_link(proxy).release()
    assert hear(client, 4) == b"late"


def test_black_hole_is_half_open(proxy: Proxy, client: socket.socket, echo: Echo) -> None:
    """A black hole takes everything and gives nothing, lets new connections in, and tells neither side of the other's end."""
    proxy.blackhole()
    client.sendall(b"lost")
    assert is_silent(client)
    with socket.create_connection((proxy.host, proxy.port), PATIENCE_S) as other:
        other.sendall(b"lost too")
        assert is_silent(other)
    client.close()
    time.sleep(A_MOMENT_S)
    assert echo.got == b"hello"
    assert echo.ends == []
    proxy.heal()
    with socket.create_connection((proxy.host, proxy.port), PATIENCE_S) as healed:
        assert say(healed, b"healed") == b"healed"


def test_deserted_server_believes_in_its_client(proxy: Proxy, client: socket.socket, echo: Echo) -> None:
    """The client is reset, and the server is not told."""
    link = the_link(proxy)
    link.desert()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    time.sleep(A_MOMENT_S)
    assert echo.ends == []
    link.cut()
    wait_until(echo.ends, "reset")


def test_refused_connections_are_reset(proxy: Proxy, client: socket.socket) -> None:
    """No connection lasts while the proxy refuses, and new ones do when it has healed."""
    proxy.refuse()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionResetError), socket.create_connection((proxy.host, proxy.port), PATIENCE_S) as refused:
        refused.recv(1)
    proxy.heal()
    with socket.create_connection((proxy.host, proxy.port), PATIENCE_S) as healed:
        assert say(healed, b"healed") == b"healed"


def test_throttled_link_is_slow(proxy: Proxy, client: socket.socket) -> None:
    """A throttled link lets everything pass, and takes the time for it."""
    the_link(proxy).throttle(10_000, Direction.TO_CLIENT)
    began_s = time.monotonic()
    assert say(client, b"x" * 2_000) == b"x" * 2_000
    assert time.monotonic() - began_s >= 0.1, "slower is possible on any machine, and quicker is not"


def test_unreachable_server_resets_the_client() -> None:
    """Where the server is down, the client hears so."""
    with (
        Proxy((LOOPBACK, 1)) as proxy,
        pytest.raises(ConnectionResetError),
        socket.create_connection((proxy.host, proxy.port), PATIENCE_S) as client,
    ):
        client.recv(1)
