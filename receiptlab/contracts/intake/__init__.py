"""Intake: inbound items that are seen, seen again, changed or erased."""
