"""Local folders and object stores behind one interface.

`folder` reads files and writes them atomically, `claim` is a lease that lets one job at a time write to a folder,
`checkpoints` stores the verified checkpoints of a run, `bundles` copies models to and from a store.
"""
