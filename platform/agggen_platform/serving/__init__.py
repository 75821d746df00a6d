"""The endpoint's configuration and deployment; the application itself is in `serve`."""
