"""What can be derived from the log, and dropped and derived again: receipts, attention, verification."""
