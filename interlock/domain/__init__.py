"""The domain: aggregates, events, premises, answers, ports, protocol. No clock, network, database, provider or randomness."""
