"""What a prompt is worth: how likely a language model finds what was really done next."""
