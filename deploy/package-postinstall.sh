#!/bin/sh
# Nothing is started or restarted: who installs decides when (docs/operate.md, "Upgrading"). systemd reads the units anew.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
