"""The columns that run on Temporal: each a workflow, and an activity that asks the model and one that refunds."""
