"""The engine for GPUs: many models trained as one."""
