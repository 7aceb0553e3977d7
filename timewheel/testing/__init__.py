"""Public test helpers: a virtual clock and loop, and the conformance suite that every store passes."""
