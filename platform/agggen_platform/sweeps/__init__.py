"""Named spaces to sweep, one YAML file each, read into :class:`agggen_platform.sweep.config.SweepConfig`."""
