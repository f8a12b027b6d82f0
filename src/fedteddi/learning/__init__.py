"""Torch: data sets, models, local training, what clients measure, evaluation."""
