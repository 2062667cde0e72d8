"""Work claims on the receipts of intake: each accepted revision is processed once.

`work` has the tables, the guards and the class. `lease` is the lease under which items are reserved, with
its fencing token. `claims` has what the calls return, a worker's claim first, and the backoff.
"""
