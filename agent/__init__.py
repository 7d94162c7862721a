"""Decides: the loop, the model's view, permissions, recovery and the terminal."""
