"""One round as JSON: reports in, the schedule out, and their schemas."""
