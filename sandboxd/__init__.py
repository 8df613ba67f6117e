"""sandboxd: what runs here, is it asking, and who answered?"""
