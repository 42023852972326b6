"""The audit of a run's results: the provider's record, and Temporal's, read again by code that wrote none of it."""
