"""The journal on PostgreSQL: many machines. Extra `postgres`."""
