"""Does a value fit a schema that somebody else wrote?"""
