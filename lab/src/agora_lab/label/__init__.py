"""Labels for scorers: which past steps an action needed."""
