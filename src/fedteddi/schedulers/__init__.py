"""Who uploads, and with how much bandwidth: one rule per file in `rules/`, the searches in `search/`."""
