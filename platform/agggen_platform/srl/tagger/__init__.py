"""Training and evaluation of the role tagger that ships with the library (`agggen.facts.tagger`)."""
