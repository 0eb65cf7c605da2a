"""One attack a file; `audits/attack.py` lists them and says what an attack is."""
