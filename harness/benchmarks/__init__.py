"""What the gate costs: `make bench` measures it against limits, and exits non-zero past one."""
