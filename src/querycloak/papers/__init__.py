"""The variants of methods that papers publish, a module for each paper: to compare with, never the default.

A variant is a subclass of its method. It has the same options, name and card, and overrides what the paper does in
another way: bounds, plans, guarantees, counting. So a method's default can be read alone.

- The class is registered in `methods/registry.py` (`VARIANTS`), by name of the method and of the variant.
- `Clicks(variant="paper", ...)` looks there and makes a value of the registered class; so do the command line, cards
  and `dataclasses.replace`. The variant's class can be called in the same way.
- `__post_init__` and the other functions of the default never ask for the variant; the subclass overrides them.
- A subclass of a method in another package cannot make a variant that has a class of its own, unless it is derived
  from that class.
"""
