"""One file a question: python -m benchmarks.NAME; python -m benchmarks runs all and prints one table."""
