"""A learned critic of any text about a record, beside the check by words."""
