"""After a crash: what became of each interrupted action, and what the model is told."""
