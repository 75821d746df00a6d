"""The endpoint's configuration, and how it is started: what it answers with is in `serve`."""
