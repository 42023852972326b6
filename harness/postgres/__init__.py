"""A real PostgreSQL server for tests, benchmarks and demos: it can be killed, restarted and followed by a standby."""
