"""Worked examples of somebody who uses the contracts: what a service of your own would look like.

mailbox    takes in the letters of an mbox
webhooks   takes in webhook deliveries in JSON Lines
batches    what the two share: many deliveries in one transaction, and counts of what they were
command    the command `intake` over both
worker     takes one item after the other, has it worked on, and saves the result once
duty       what a worker hands out: the item, and the way to say that it failed
running    a handler that runs a command of yours on the item
stopping   what ends a worker from outside
turns      a line of workers in front of the write lock
working    the command `work` over these
tending    the commands `status`, `results`, `dead`, `requeue` and `sweep`
metrics    the counts of work as text for Prometheus
http_receiver  the receiver as a service over HTTP (extra `http`): what a client can rely on
http_requests  its ASGI application: from a request to the contract's call to an answer
http_fields    how these requests are written: header fields, query, digest
http_sender    the owner's side: a message sent over HTTP, and what is known when that fails
receiving  the command `receiver`
options    what the commands share
clock      the one place in the package that reads a clock
"""
