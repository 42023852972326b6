"""A local Stripe: the v1 API on one port, the world behind it on another, and a ledger beside both.

The real SDK talks to it over a socket. It keeps Stripe's rules about idempotency keys, refunds, metadata and paging,
can be told to fail in every way in which a network and a provider fail, and writes each effect to a file at the moment
it happens.

`state`, `idempotency`, `endpoints` and `api` are pure: no socket, no file, and a clock that is handed in. `exchange`
adds the faults, `server` and `control` the two ports. A worker process needs `client` only, and an audit `ledger` only;
that is why nothing is imported here.
"""
