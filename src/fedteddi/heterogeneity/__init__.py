"""How data differ: between clients (divergence), between frames (drift), and inside a batch (variance)."""
