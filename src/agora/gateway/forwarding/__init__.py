"""One request passed on to its upstream, and the answer handed back."""
