"""Algorithm 1 as messages: what clients report, what the server answers."""
