"""The endpoint: an ingress, planners and generators as deployments of Ray Serve (`app`), and what they are made of."""
