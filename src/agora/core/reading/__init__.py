"""What a step says of itself, each text read once: names, records, mentions, outcome, action."""

READ_CHARACTERS = 32_768
"""How much of a text is read, of a very long one from each end: names further in are worth no
seconds."""
READ_OF_AN_ACTION = 8_192
"""The same of an action, whose beginning says what is done."""
