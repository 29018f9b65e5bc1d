"""Steps scored by what is at hand: position, words, structure, encoders."""
