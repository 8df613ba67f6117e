"""Who brings the questions of many hosts to people, and the answers back?"""
