"""The pure core: values in, values out, standard library only."""
