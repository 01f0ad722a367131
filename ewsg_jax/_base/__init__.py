"""What all rooms stand on: checks of arguments, trees, random numbers, compiled programs."""
