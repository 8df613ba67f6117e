"""May this run, and as what exactly?"""
