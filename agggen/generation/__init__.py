"""Generates texts under plans: batched beam search, joint choice of plan and text, check of each fact."""
