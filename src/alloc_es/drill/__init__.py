"""Put a store under fire, and check from its logs alone that every promise held."""
