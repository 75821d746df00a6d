"""The learned critic, which checks any text about a record by meaning, not by words."""
