"""What `serve` can run without user code."""
