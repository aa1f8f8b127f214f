# The text of the screen. Every name begins with "tui-".
