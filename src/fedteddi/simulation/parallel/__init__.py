"""Runs spread over a Ray cluster."""
