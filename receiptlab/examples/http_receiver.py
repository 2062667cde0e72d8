"""The receiver as a service over HTTP, for this computer alone: the worked example of a receiver.

It follows "The Idempotency-Key HTTP Header Field" (draft-ietf-httpapi-idempotency-key-header-07,
https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header), a draft and no standard.

POST any path, with Idempotency-Key: the effect once. A replay gets the same status and the same bytes
again, and the header `Idempotent-Replayed: true`. The key stands for method, path with query, and body, to
the byte. Only the boundary of a multipart body doesn't count, since clients draw a new one for each attempt.
`http_fields` says how a key is written. Error responses:

400  the key is missing or malformed, the body was cut, the request line or a header cannot be read, the
     request is for another host
403  writer-unknown, writer-fenced
404  not-found (no effect under this key), no-such-path
405  another method, 501 one that HTTP does not know
408  the client was silent for too long
411  no Content-Length, 413 more than 1 MiB: it is not read, and the connection is closed
412  fence: the request's Receiver-Fence is a condition that no longer holds. Not 409, which the draft keeps
     for "ask again, unchanged": clients do so by themselves, the one of stripe too, and it never helps
422  key-reused: the key came with another request before
500  COMMIT failed in a way that leaves open whether the effect is there. Ask again with the same key. With
     the reason `damaged` the file is damaged: don't ask again, restore a backup
503  nothing was written: the file was locked for too long, the disk is full, or a statement failed.
     Retry-After says when to ask again. Without Retry-After somebody has to start the service anew first,
     because the file was removed or replaced
505  another version than HTTP/1.0 and HTTP/1.1

Answers that no retry changes, `damaged` and those about a replaced file, have no Retry-After, but the header
`Stripe-Should-Retry: false`, since Stripe's clients retry any other 5xx on their own. requests, httpx and
urllib3 don't, unless they are set to. A 4xx would stop every client, but it would blame the request.

409, in the draft for a request whose first attempt still runs, does not occur. Looking for the key and
having the effect is one write transaction, and there is one at a time: the second request waits for the
first, and then finds its answer. If it waits for too long, it gets 503, and nothing of it was written.
All of these but 500 say that nothing was written but the refusal itself. Only a lost answer leaves open
what happened. Bodies are application/problem+json (https://www.rfc-editor.org/rfc/rfc9457), with a `reason`.

A writer that was registered names itself in Receiver-Owner, -Generation, -Instance, and its effect in
Receiver-Subject, -Revision and -Fence: all six. Who sends none of them writes as `anyone` (or as the owner
that the service was started for), instance `service`, on the subject `request`, revision and fence 0.

POST /writers  Receiver-Owner and Receiver-Instance in the headers: an identity
GET /effects?owner=&key=  the answer that is kept under a key
GET /known?owner=&subject=  the highest fence and revision

Each connection has a thread and a `Store` of its own: a connection of sqlite3 stays in its thread, and it
is the file that says who is first. There is no TLS, no password, and no bound on the number of clients.
When file descriptors run out, new clients wait until one is free, and requests that need one get 503.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from socketserver import TCPServer

from receiptlab.contracts.receiver import Receiver
from receiptlab.errors import WrongValue
from receiptlab.examples import clock
from receiptlab.examples.http_requests import Handler
from receiptlab.examples.stopping import Watched
from receiptlab.store import Store

OWNER, INSTANCE = "anyone", "service"
"""As whom a client writes that names no writer."""

PATIENCE_MS = 10_000
"""How long a client may be silent, in milliseconds."""

_LINGER_S, _LINGERS = 1, 16
_REST_MS = 100


class Service(ThreadingHTTPServer):
    """The service over an open store with the receiver's tables. It listens once it is made.

    Raises WrongValue for a host that is not of this computer alone, OSError where the port cannot be had,
    and what `Receiver.register` raises: writer-fenced, where somebody else writes for this owner by now.
    The store stays the caller's; close it after the service.
    """

    daemon_threads = False  # they are waited for: an effect whose answer nobody gets is a lost answer
    request_queue_size = 128
    allow_reuse_address = os.name == "posix"  # elsewhere it would share a port that is taken

    def __init__(
        self,
        store: Store,
        owner: str = OWNER,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        _loopback(host)
        self.store, self.patience_ms, self.stopping = store, patience_ms, False
        self.watched = Watched(store.path)
        self.failpoint: Callable[[str], None] = lambda point: None
        """As `Store.reach`, for every request. One that raises InjectedFault cuts the connection there."""
        self._connections: set[socket.socket] = set()
        super().__init__((host, port), Handler)
        try:
            self.writer = Receiver(store).register(owner, INSTANCE, clock.milliseconds())
        except BaseException:
            self.server_close()
            raise

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.server_address[0]}:{self.server_address[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Service]:
        """Serve for the time of the block. At its end, requests that came whole are answered first, and
        every connection, thread and store of a connection is closed."""
        loop = threading.Thread(target=self.serve_forever, args=(0.05,))
        loop.start()
        try:
            yield self
        finally:
            self.stopping = True
            self.shutdown()
            for connection in list(self._connections):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)  # who waits for a request sees its end
            self.server_close()
            loop.join()

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept a connection. Where that fails, most likely because no file descriptor is left, pause: the
        connection stays in the queue, so the loop would otherwise try again at once, on and on."""
        try:
            return super().get_request()
        except OSError:
            clock.wait(_REST_MS)
            raise

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # that of HTTPServer asks for the computer's name
        self.server_name, self.server_port = self.server_address[:2]

    def process_request(self, request: socket.socket, client_address: object) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:
        """Close a connection. Were a body still unread in it, the client would lose the answer with it: so
        a little of it is thrown away, for a little time."""
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            request.settimeout(_LINGER_S)
            for _ in range(_LINGERS):
                if not request.recv(65_536):
                    break
        self._connections.discard(request)
        self.close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error of the service. Anything else is told in one sentence."""
        error = sys.exception()
        if not isinstance(error, OSError):
            what = str(error).encode("unicode_escape").decode("ascii")  # nothing that could steer a terminal
            told = f"a request was left without an answer: {type(error).__name__}: {what}"
            print(told, file=sys.stderr)


def _loopback(host: str) -> None:
    try:
        if ipaddress.IPv4Address(host).is_loopback:
            return
    except ValueError:
        pass
    raise WrongValue("host", "must be an address of this computer alone, such as 127.0.0.1")
