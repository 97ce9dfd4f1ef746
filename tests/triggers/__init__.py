"""The triggers of consumers: who gets which, how often, and when it is over."""
