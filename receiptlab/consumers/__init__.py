"""Worked examples of somebody who uses the contracts: what a service of your own would look like.

mailbox    takes in the letters of an mbox
webhooks   takes in webhook deliveries in JSON Lines
batches    what the two share: many deliveries in one transaction, and counts of what they were
command    the command `intake` over both
"""
