"""Examples: what your own service on the contracts could look like. README.md shows the commands.

mailbox, mbox       takes in the letters of an mbox
webhooks            takes in webhook deliveries in JSON Lines
batches             what these two share: many deliveries per transaction, and a report
worker              claims items, calls a handler, and saves each result once
handler             what a handler gets, and how it reports failure
subprocess_handler  a handler that runs a command on the item
stopping            what ends a worker from outside
fair_lock           a fair lock in front of the write lock
metrics             counts of work for Prometheus
http_receiver       the receiver as an HTTP service on localhost, with idempotency keys (extra `http`)
http_requests       its requests: from HTTP to the contract's call and back
http_fields         how keys and writers are written in headers and queries, and a request's digest
http_sender         the owner's side: messages sent over HTTP, and what is known when that fails
clock               the only place in the package that reads a clock
"""
