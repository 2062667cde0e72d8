"""The contracts, all in the same shape. Read `owner` first.

`owner`, `retention` and `receiver` are one module each. `receiver` is the party outside, with its own
database file, and `relay` sends it the messages of an owner's outbox. `intake/` and `work/` are folders,
since each needs several modules; `work` builds on `intake`. All contracts share `outbox` and the class in
`base`. `registry` lists them by the names that case files use.

From top to bottom a contract module has

- `SCHEMA`, its tables;
- `ARGUMENTS`, the rule that each argument must pass;
- its answers: frozen records with an `outcome` (accepted, replayed or read);
- its commands: for each guarded call a frozen record of the arguments; and the current rows, a record of
  what the call's transaction has read;
- its guards: small functions `guard(command, current)`, annotated with the records that they take. A guard
  returns None to let the call go on, returns a saved answer to end it, or raises Refused;
- `GUARDS`, which lists the guards of each call in order. This table is the contract in one place;
- its SQL, and a class on `base.Contract`. Each public call that writes is one transaction: read the current
  rows, run the guards, write. (`Work.next` is two calls in a row and its docstring says so.) Only a call
  whose name begins with `stage_` writes in its caller's transaction.

A guard is named after the reason it refuses with (`not_found` for not-found). The guard that returns a saved
answer is named `replay`. When two calls need different guards for the same reason, the call's name comes
first (`claim_state`, `accept_state`). When several guards refuse for the same reason, the name ends with what
each one checks (`claim_lost_fence`), and the refusal has it among its fields. The ablation relies on these
names.
"""
