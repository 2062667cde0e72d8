"""The receiver as an HTTP service on this computer: the worked example of a receiver.

It follows "The Idempotency-Key HTTP Header Field" (draft-ietf-httpapi-idempotency-key-header-07,
https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header), which is a draft, not a
standard.

POST to any path with an Idempotency-Key has one effect, however often it is sent. A replay gets the same
status and the same bytes, and the header `Idempotent-Replayed: true`. The key stands for the method, the path
with its query, and the body, compared byte by byte. The boundary of a multipart body doesn't count, because
clients choose a new one for each attempt, and an empty query (`/a?`) is the same as none. `http_fields` shows
how to write a key.

Error responses are application/problem+json (https://www.rfc-editor.org/rfc/rfc9457) with a `reason`:

400  the key is missing or malformed, a header cannot be read, or the request is for another host
403  writer-unknown, writer-fenced
404  not-found (no effect under this key), no-such-path
405  the path has another method; 501 for a method that HTTP does not have
408  the body did not arrive in time
412  fence: a higher Receiver-Fence was used before. It isn't a 409, which in the draft invites a retry:
     Stripe's client retries a 409 by itself, and that would never help
413  the body is longer than 1 MiB, with a Content-Length or chunked
422  key-reused: this key came with another request before
500  COMMIT failed, and the effect may or may not be there. Retry with the same key. With the reason
     `damaged` the file is damaged: don't retry, restore a backup
503  nothing was written: too many requests are waiting (overloaded), the file was locked for too long, the
     disk is full, or a statement failed.
     Retry-After says when to retry. Without Retry-After the file was removed or replaced, and somebody has
     to start the service again
505  a version other than HTTP/1.0 and HTTP/1.1

Every answer but 500 is definite: with an error status, nothing but the refusal was written. When no answer
arrives, the client cannot know, and should retry with the same key. Answers that no retry can change have the
header `Stripe-Should-Retry: false`, because Stripe's clients retry all other 5xx by themselves.

uvicorn parses HTTP and runs the connections. It answers what it cannot parse with its own 400, in plain text,
and closes the connection. It also closes a connection that is cut inside a request, or that stays silent for
10 seconds before a request is complete. None of these has an effect.

The draft's 409, for a request whose first attempt still runs, does not occur: all requests are handled in one
thread, one after the other, and a repeat waits for the first attempt's answer. SQLite
has one writer at a time anyway, and threads that compete for its lock make the slowest requests much slower.

A registered writer sends Receiver-Owner, -Generation, -Instance, -Subject, -Revision and -Fence: all six. A
client that sends none of them writes as `anyone` (or as the owner that the service was started for), instance
`service`, on the subject `request`, revision and fence 0.

POST /writers  Receiver-Owner and Receiver-Instance in the headers: get an identity
GET /effects?owner=&key=  the answer that is kept under a key
GET /known?owner=&subject=  the highest fence and revision

There is no TLS and no password.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from receiptlab.contracts.receiver import Receiver
from receiptlab.errors import WrongValue
from receiptlab.examples import clock
from receiptlab.examples.http_fields import Problem
from receiptlab.examples.http_requests import AGAIN, INSTANCE, OWNER, Answer, Application, refusal
from receiptlab.examples.stopping import Watched
from receiptlab.store import Store

PATIENCE_MS = 10_000
"""How long a client may be silent, in milliseconds."""

MAX_WAITING = 100
"""How many requests may wait for the one that writes to the file. At a few hundred a second, the last of them
waits for less than a second, and a client that retries waits no longer than that."""

_BACKLOG = 128


class Service:
    """The service over an open store with the receiver's tables. It listens as soon as it is made.

    Raises WrongValue for a host that is not a loopback address, OSError when the port is not available, and
    Refused (writer-fenced) when another instance was registered for this owner. The caller closes the store.
    """

    def __init__(
        self,
        store: Store,
        owner: str = OWNER,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        patience_ms: int = PATIENCE_MS,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        _loopback(host)
        self.store, self.host, self.patience_ms, self.stopping = store, host, patience_ms, False
        self.max_waiting, self._waiting = max_waiting, 0
        self.watched = Watched(store.path)
        self.failpoint: Callable[[str], None] = lambda point: None
        """As `Store.failpoint`, for every request. One that raises InjectedFault cuts the connection."""
        self._receiver: Receiver | None = None
        self._listener = _listen(host, port)
        self.server_address = self._listener.getsockname()
        try:
            self.writer = Receiver(store).register(owner, INSTANCE, clock.milliseconds())
        except BaseException:
            self._listener.close()
            raise

    @property
    def url(self) -> str:
        """The address that it listens on."""
        return f"http://{self.server_address[0]}:{self.server_address[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Service]:
        """Serve for the time of the block. At its end, requests that arrived whole are answered first,
        and all connections and threads are closed."""
        config = uvicorn.Config(
            Application(self), http=GuardedConnection, ws="none", lifespan="off", backlog=_BACKLOG,
            log_config=None, log_level="critical", access_log=False, server_header=False,
            timeout_keep_alive=self.patience_ms / 1_000,
        )  # fmt: skip
        server = uvicorn.Server(config)
        with self._listener, ThreadPoolExecutor(1, "receiver") as self._thread:
            loop = threading.Thread(target=asyncio.run, args=(self._serve(server),))
            loop.start()
            try:
                yield self
            finally:
                self.stopping = server.should_exit = True
                loop.join()
                self._thread.submit(self._close).result()

    async def write(self, act: Callable[[], Answer]) -> Answer:
        """Call `act` in the thread of the store, after the requests that came before. With too many of them
        it isn't called, and the answer is 503 (overloaded)."""
        if self._waiting > self.max_waiting:
            detail = f"{self.max_waiting} requests are waiting already; nothing was written, so try again"
            return refusal(Problem(503, "overloaded", detail, AGAIN))
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, act)
        finally:
            self._waiting -= 1

    def receiver(self) -> Receiver:
        """The contract, on a store of the thread that asks. Raises Gone, and what `Store.open` raises."""
        self.watched.look()
        if self._receiver is None:
            store = self.store.again()
            try:
                self._receiver = Receiver(store)
            except BaseException:
                store.close()
                raise
        self._receiver.store.failpoint = self.failpoint
        return self._receiver

    async def _serve(self, server: uvicorn.Server) -> None:
        asyncio.get_running_loop().set_exception_handler(_ignore_os_errors)
        await server.serve(sockets=[self._listener])

    def _close(self) -> None:
        if self._receiver is not None:
            self._receiver.store.close()
            self._receiver = None


class GuardedConnection(H11Protocol):
    """uvicorn's connection, plus a limit on the time that the head of a request takes, an answer for a client
    that has closed its sending side, and a way to cut the connection."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.app_state = self.app_state | {"cut": transport.abort}
        self._limit_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_head()

    def eof_received(self) -> bool:
        if self._idle() or self.cycle.more_body:
            return False  # closes the connection
        self.cycle.keep_alive = False
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        super().connection_lost(error)

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _limit_head(self) -> None:
        if self._idle() and self._timer is None:
            self._timer = self.loop.call_later(self.timeout_keep_alive, self.transport.close)
        elif self._timer and not self._idle():
            self._timer.cancel()
            self._timer = None


def _listen(host: str, port: int) -> socket.socket:
    # asyncio switches Nagle's delay off only for sockets whose protocol is named.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere it would share a port that is taken
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _ignore_os_errors(loop: asyncio.AbstractEventLoop, context: dict) -> None:
    """A client that goes away, or file descriptors that run out, are not errors of the service. asyncio
    itself waits a second before it accepts again."""
    if not isinstance(context.get("exception"), OSError):
        loop.default_exception_handler(context)


def _loopback(host: str) -> None:
    try:
        if ipaddress.IPv4Address(host).is_loopback:
            return
    except ValueError:
        pass
    raise WrongValue("host", "must be a loopback address, such as 127.0.0.1")
