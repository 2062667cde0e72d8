"""Intake: receipts of inbound items that are new, redelivered, changed or erased.

`intake` has the tables, the guards and the class. `items` says how an item is identified, and has what the
calls return. `content` computes the digest of a message without its volatile fields.
"""
