"""How does a process start, and how does all of it end?"""
