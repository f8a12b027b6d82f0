"""Studies: what one is (a TOML file), playing it, keeping it as summaries, its claims and their verdicts, its page."""
