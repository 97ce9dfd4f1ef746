"""Group commit: how groups form, and what each caller of a group is told."""
