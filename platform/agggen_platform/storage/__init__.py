"""Where data lies: folders on this machine and in an object store behind the same calls.

`folder` reads and writes whole files or none, `claim` lets one job at a time have a folder, `checkpoints` keeps the
verified checkpoints of a run, `bundles` carries models to and from a store.
"""
