"""The drill: what breaks a store on purpose, and what tells whether it held."""
