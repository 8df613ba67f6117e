"""Is the program asking something?"""
