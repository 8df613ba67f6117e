"""How does a cockpit pass on, to whoever gave it a task, the questions that it cannot answer itself?"""
