"""A training job (`job`): from a configuration to a bundle, in this process or on the workers of a Ray cluster."""
