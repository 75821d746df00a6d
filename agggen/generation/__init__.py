"""From plans to text: batched cached beam search, joint choice of plan and text, whether the plan was followed."""
