"""What runs several stages one after another: the demo."""
