"""What state is a task in, and what does a client see of it?"""
