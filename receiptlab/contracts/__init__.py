"""The contracts. One module each, all in one shape; `owner` is the one to read first.

A contract module has, from top to bottom: `SCHEMA` (its tables), `ARGUMENTS` (what each argument
may be), the frozen dataclasses it answers with, its guards as small named functions, `GUARDS`
(for each call the guards in their order), and one class over an open Store. Each public call is
one transaction: it runs its guards, then writes. A guard returns None to go on, returns a saved
receipt to answer from it, or raises Refused.
"""
