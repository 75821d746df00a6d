"""Named configurations, one YAML file each, read by :func:`agggen.config.load_config`."""
