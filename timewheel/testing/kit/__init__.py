"""The kit for users' tests: virtual time on the loop of a test, and what a test says about jobs."""
