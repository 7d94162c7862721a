"""What the model sees: history, prompt, compaction."""
