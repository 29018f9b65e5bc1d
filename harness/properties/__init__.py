"""The properties that hold for every history, and what they are checked on."""
