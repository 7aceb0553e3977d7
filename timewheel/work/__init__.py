"""RUN it. `lifecycle`, `backoff`, `classify` and `context` decide; `worker` and `runner` act."""
