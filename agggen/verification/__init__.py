"""Checks of a text against its record: omitted, incomplete and hallucinated values (strict, lenient, and E2E slots)."""
