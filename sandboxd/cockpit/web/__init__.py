"""How do people, and their programs, reach the cockpit?"""
