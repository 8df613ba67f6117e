"""sandboxd: what runs here, is it asking, and who answered?"""

__version__ = "0.1.0"
