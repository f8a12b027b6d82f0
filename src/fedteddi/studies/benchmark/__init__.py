"""The leaderboard: every scheduler on a few small scenarios, with intervals over seeds."""
