"""Faults on purpose: in this process, in other processes, on a simulated disk, in the tables.

A new kind of fault is a new module here. Each says what its faults prove, and what they don't."""
