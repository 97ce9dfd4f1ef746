"""The stores beside each other, driven by the same random commands."""
