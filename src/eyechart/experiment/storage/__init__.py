"""Where a study is kept: its folder, its database with migrations, its secrets, and what is read.

Which trial comes next is decided in `server`, whose responses count in `quality`.
"""
