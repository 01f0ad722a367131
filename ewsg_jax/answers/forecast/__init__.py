"""What a kernel will do near a mode, before it runs."""
