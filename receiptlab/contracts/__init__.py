"""The contracts, all in one shape; `owner` is the one to read first.

`owner`, `retention` and `receiver` are a module each. `receiver` is the party outside, with a file of its
own, and `relay` sends it what an owner's file owes. `intake/` is a folder: `items` has the names and the
findings, `content` the digest of a message without its volatile fields, `staging` the tables, the guards
and the calls that write into the caller's transaction, `intake` the class. So is `work/`, which builds on
intake: `lease`, `claims` (tables, records, guards), `reserving` (what happens under a lease), `work` the
class. All contracts share `outbox` and build on the class in `base`; `registry` names them for case files.

From top to bottom a contract module has

- `SCHEMA`, its tables;
- `ARGUMENTS`, the rule that each argument must pass;
- what it answers with: frozen records with an `outcome` (accepted, replayed or read);
- its guards, small named functions `guard(call, seen)`: `call` holds the checked arguments, `seen`
  what the transaction has read. A guard returns None to go on, returns a saved answer to end the
  call with it, or raises Refused;
- `GUARDS`, for each call its guards in their order: the contract in one place;
- its SQL, and one class on `base.Contract`. Each public call that writes is one transaction: see,
  guard, write (`next` is two calls in a row, and says so). Only a call whose name begins with `stage_`
  writes into a transaction of the caller.

A guard has the name of the reason that it refuses with (`not_found` for not-found). The guard that
answers from what is saved is named `replay`. Where two calls need different guards of one name, the
call's name stands in front (`claim_state`, `accept_state`). Where several guards refuse with one reason,
what each looks at stands behind it (`claim_lost_fence`), and the refusal has it among its fields. The
ablation relies on these names.
"""
