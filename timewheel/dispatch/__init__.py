"""MAY it start now? `bucket`, `ready` and `limits` decide; `dispatcher` and `gate` act."""
