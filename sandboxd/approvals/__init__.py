"""Who must say yes, what did they say, and has the asker taken it?"""
