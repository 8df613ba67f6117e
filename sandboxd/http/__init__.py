"""How do clients reach the operations?"""
