"""What goes on between a living process and those who wait for it?"""
