"""What does a cockpit start itself, and what becomes of it?"""
