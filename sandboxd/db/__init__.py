"""How does a fact reach the disk?"""
