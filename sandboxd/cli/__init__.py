"""How does a person at a terminal reach them?"""
