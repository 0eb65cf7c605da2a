"""What a release is good for: measures are declared (name, citation, parameters) apart from what computes them."""
