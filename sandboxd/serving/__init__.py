"""How is HTTP served at a socket, whoever serves it?"""
