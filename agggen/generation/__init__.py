"""From plans to text: batched cached beam search, the joint choice of plan and text, and what came of the plan."""
