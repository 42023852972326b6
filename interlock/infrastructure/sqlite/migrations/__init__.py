"""The versions of the schema, one SQL file each, applied in the order of their numbers and never changed afterwards."""
