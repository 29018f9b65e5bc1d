"""The scoreboard: every tool that shortens prompts, on the same recorded sessions.

`sessions` reads recordings, `worker` shows a contender each call, `simulate` bills its prompts and
looks for lost names, `run` does that for all, and `report` and `page` show the rows. A
contender is one file in `contenders`; docs/evidence/methods.md has the rules.
"""
