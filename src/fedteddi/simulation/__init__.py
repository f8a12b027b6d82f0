"""Many runs in one process, advanced in lock-step; their folders, checkpoints and workers."""
