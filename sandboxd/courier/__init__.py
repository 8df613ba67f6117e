"""How do push notifications leave this machine?"""
