"""The endpoint: an ingress, planners and generators as deployments of Ray Serve (`app`), with their parts."""
