"""How a step stands in the prompt: its forms, and the markers and notes that they are told in."""
