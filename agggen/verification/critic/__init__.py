"""The critic: a neural network that checks texts of any system against their records."""
