"""What is asked about a user's model: each question returns a list of findings."""
