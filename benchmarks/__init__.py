"""One file a question: python -m benchmarks.NAME."""
