"""What happens when the store fails in mid-use: real faults on real connections."""
