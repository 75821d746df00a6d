"""What a text says of a record: values said whole, in part or not at all, and what it says that no triple has."""
