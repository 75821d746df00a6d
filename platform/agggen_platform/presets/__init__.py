"""Named configurations, one YAML file each, read by :func:`agggen_platform.config.load_config`."""
