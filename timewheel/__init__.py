"""timewheel."""
