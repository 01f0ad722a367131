"""What is asked about a user's model."""
