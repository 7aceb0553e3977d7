"""The engine standalone: a scheduler behind an HTTP API (`timewheel.serve.app`). Needs the extra `serve`."""
