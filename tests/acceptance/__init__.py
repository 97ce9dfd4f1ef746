"""What issue 2 has to do before it is done, a module for each line of its list."""
