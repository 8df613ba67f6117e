"""What keeps a run away from everything that it was not given, and does this host have it?"""
