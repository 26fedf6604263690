"""What each command does, except training."""
