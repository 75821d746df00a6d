"""From plans to texts: batched beam search with caches, joint choice of plan and text, check of the facts."""
