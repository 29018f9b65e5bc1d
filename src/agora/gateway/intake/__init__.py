"""What is let in: heads and bodies within their bounds, slots and rates, and our own refusals."""
