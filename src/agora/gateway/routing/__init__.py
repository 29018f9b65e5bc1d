"""Where a request goes: its route, whose keys it carries, which headers go, which upstream."""
