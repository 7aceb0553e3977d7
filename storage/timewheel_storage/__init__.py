"""Adapters of `timewheel.store.port`: `memory` (the model) and `sqlite`."""
