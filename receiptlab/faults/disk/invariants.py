"""What must hold of a contract's file at any moment: by contract and name, a SELECT for what breaks it.

`reopening.look` checks foreign keys before these rules, so none of them repeats a REFERENCES of the schema.
`tests/faults/test_invariants.py` plants a fault for each rule.
"""

from __future__ import annotations

_OWNER = {
    "results without a receipt each": """SELECT work FROM work w WHERE results <> (
        SELECT count(*) FROM receipt r WHERE r.scope = w.scope AND r.work = w.work)""",
    "a receipt without exactly one message": """SELECT id FROM receipt r WHERE 1 <> (
        SELECT count(*) FROM outbox o WHERE o.topic = 'result-recorded' AND o.subject = r.id)""",
    "a message without a receipt": """SELECT id FROM outbox o WHERE NOT EXISTS (
        SELECT 1 FROM receipt r WHERE o.subject = r.id)""",
    "a lease of nobody": """SELECT work FROM work WHERE state = 'leased'
        AND (holder IS NULL OR expires_at IS NULL)""",
    "a scope half revoked": "SELECT scope FROM work GROUP BY scope HAVING min(revoked) <> max(revoked)",
}
_RETENTION = {
    "an effect of an open epoch without exactly one receipt": """SELECT e.id FROM effect e
        LEFT JOIN boundary b ON b.namespace = e.namespace
        WHERE e.epoch > coalesce(b.closed_through, -1) AND 1 <> (SELECT count(*) FROM receipt r
        WHERE (r.namespace, r.epoch, r.operation) = (e.namespace, e.epoch, e.operation))""",
    "a receipt without exactly one effect": """SELECT operation FROM receipt r WHERE 1 <> (
        SELECT count(*) FROM effect e WHERE (r.namespace, r.epoch, r.operation, r.digest)
        = (e.namespace, e.epoch, e.operation, e.digest))""",
    "a receipt of a closed epoch": """SELECT operation FROM receipt r JOIN boundary b
        ON b.namespace = r.namespace WHERE r.epoch <= b.closed_through""",
}
_INTAKE = {
    "a receipt that counts other revisions": """SELECT identity FROM receipt r
        WHERE (revisions, collisions) <> (SELECT count(*), coalesce(sum(disposition = 'collision'), 0)
        FROM revision v WHERE v.identity = r.identity)""",
    "a head that is not there": """SELECT identity FROM receipt r WHERE state <> 'erased' AND NOT EXISTS (
        SELECT 1 FROM revision v WHERE v.identity = r.identity AND v.number = r.head)""",
    "half compacted": """SELECT r.identity FROM receipt r JOIN revision v ON v.identity = r.identity
        WHERE (r.state = 'compacted') <> (v.outcome IS NULL) OR (r.state = 'compacted') <> (r.key IS NULL)""",
    "something left of what is erased": """SELECT identity FROM receipt WHERE state = 'erased' AND NOT (
        coalesce(key_kind, tenant, namespace, key, head, retain_until, tombstone_until) IS NULL
        AND revisions + collisions + seen + unsettled = 0)""",
    "erased without exactly one message": """SELECT identity FROM receipt r WHERE (state = 'erased') <> (
        SELECT count(*) FROM outbox o WHERE o.topic = 'erased' AND o.subject = r.identity)""",
    "a revision without a message": """SELECT identity FROM revision v GROUP BY identity HAVING count(*) > (
        SELECT count(*) FROM outbox o WHERE o.topic = 'delivery' AND o.subject = v.identity)""",
}
_WORK = {
    "a receipt that counts other work": """SELECT identity FROM receipt r WHERE unsettled <> (
        SELECT count(*) FROM work w WHERE w.identity = r.identity
        AND w.state NOT IN ('done', 'discarded'))""",
    "work of a receipt that does not live": """SELECT w.id FROM work w JOIN receipt r
        ON r.identity = w.identity WHERE r.state <> 'live'""",
    "done without exactly one effect": """SELECT id FROM work w WHERE (state = 'done') <> (
        SELECT count(*) FROM effect e WHERE (e.identity, e.revision, e.processor, e.processor_revision)
        = (w.identity, w.revision, w.processor, w.processor_revision))""",
    "done without exactly one message": """SELECT id FROM work w WHERE (state = 'done') <> (
        SELECT count(*) FROM outbox o WHERE o.topic = 'done' AND o.subject = w.identity)""",
    "a dead letter without a message": """SELECT id FROM work w WHERE state = 'dead' AND NOT EXISTS (
        SELECT 1 FROM outbox o WHERE o.topic = 'dead-letter' AND o.subject = w.identity)""",
    "done without exactly one such attempt": """SELECT id FROM work w WHERE (state = 'done') <> (
        SELECT count(*) FROM attempt a WHERE a.work = w.id AND a.result = 'done')""",
    "claimed without exactly one open attempt": """SELECT id FROM work w WHERE (state = 'claimed') <> (
        SELECT count(*) FROM attempt a WHERE a.work = w.id AND a.result = 'open')""",
    "a hole in the history": """SELECT id FROM work w WHERE (entries, entries) <> (
        SELECT count(*), coalesce(max(number), 0) FROM attempt a WHERE a.work = w.id)""",
    "attempts that are not counted": """SELECT id FROM work w WHERE attempts <> (
        SELECT count(*) FROM attempt a WHERE a.work = w.id AND a.result <> 'requeued')""",
}
_RECEIVER = {
    "generations with a hole": """SELECT owner FROM writer GROUP BY owner
        HAVING count(*) <> max(generation)""",
    "another than the last writer unfenced": """SELECT owner FROM writer GROUP BY owner
        HAVING sum(fenced_at IS NULL) <> 1
        OR max(generation) <> max(iif(fenced_at IS NULL, generation, 0))""",
    "a restore receipt of nobody": """SELECT id FROM restoration r WHERE NOT EXISTS (
        SELECT 1 FROM writer w WHERE (w.owner, w.generation) = (r.owner, r.generation))""",
}
_RELAY = {
    "a state of what is no message": """SELECT outbox FROM relay d WHERE NOT EXISTS (
        SELECT 1 FROM outbox o WHERE o.id = d.outbox AND o.topic = 'result-recorded')""",
    "a message without a state": """SELECT id FROM outbox o WHERE o.topic = 'result-recorded' AND NOT EXISTS (
        SELECT 1 FROM relay d WHERE d.outbox = o.id)""",
    "a subject of which nothing is due and nobody decides": """SELECT subject FROM relay
        WHERE state NOT IN ('acknowledged', 'refused', 'closed')
        GROUP BY subject HAVING max(due IS NOT NULL OR state IN ('parked', 'unclear')) = 0""",
    "attempts that are not counted": """SELECT outbox FROM relay d WHERE attempts < (
        SELECT coalesce(max(number), 0) FROM attempt a WHERE a.outbox = d.outbox)""",
}

RULES: dict[str, dict[str, str]] = {
    "owner": _OWNER,
    "retention": _RETENTION,
    "intake": _INTAKE,
    "work": _INTAKE | _WORK,
    "receiver": _RECEIVER,
    "relay": _OWNER | _RELAY,
}
