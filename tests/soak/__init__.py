"""What takes hours: every promise under thousands of races and hundreds of faults."""
