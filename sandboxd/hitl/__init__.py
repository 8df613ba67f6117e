"""How is a person asked, and how is an answer taken?"""
