"""What data arrives, when and where."""
