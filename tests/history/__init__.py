"""Looking back: what held when, why a run got its version, tenures, what differs, what if."""
