"""What became of an answer behind its acceptance?"""
