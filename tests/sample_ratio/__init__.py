"""The sample ratio: its answers, its p-values, its false alarms, and the counting of units."""
