"""What the gate is measured against, each as its best user would write it, and the gate itself."""
