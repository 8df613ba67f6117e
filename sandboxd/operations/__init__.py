"""What may a client ask of the daemon?"""
