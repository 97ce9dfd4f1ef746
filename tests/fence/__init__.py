"""The fence: no run is recorded under a generation that another one has superseded."""
