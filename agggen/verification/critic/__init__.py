"""The learned critic, which checks texts of any system against records by meaning, not by matching words."""
