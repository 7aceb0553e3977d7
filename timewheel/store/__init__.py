"""KEEP it. `port` and `changes` are the contract; `committer`, `loader` and `recovery` act."""
