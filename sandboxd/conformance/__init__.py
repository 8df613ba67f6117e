"""Does that executor keep what the specs promise, seen from outside?"""
