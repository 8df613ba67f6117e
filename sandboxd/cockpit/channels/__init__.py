"""By which ways does a cockpit tell people of questions, and hear their answers?"""
