"""AGORA with an edit at every call, as the paper schedules them, whatever the prices."""

from agora_lab.scoreboard.contenders.agora_default import prepare as prepare

TITLE = "AGORA at every call"
SOURCE = "the schedule of the paper; the selection is AGORA's default"
OURS = True
THINKING = True
SETTINGS = {"default": {"edits": "every_call"}}
