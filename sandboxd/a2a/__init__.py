"""What does the A2A protocol say?"""
