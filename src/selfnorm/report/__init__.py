"""JSON in, page out; nothing imports it but the door, and it starts without torch."""
