"""LaTeX tables of results, leaderboards and overlaps."""
