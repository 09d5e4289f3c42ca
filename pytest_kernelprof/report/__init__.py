"""What people and machines read: text and JSON."""
