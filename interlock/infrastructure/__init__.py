"""What touches the world: journals, locks, clocks, transports."""
