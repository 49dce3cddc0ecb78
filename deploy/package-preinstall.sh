#!/bin/sh
# Masters run as a user of their own, which owns their data folder.
set -e
if ! getent passwd tender >/dev/null 2>&1; then
	useradd --system --user-group --home-dir /var/lib/tender --no-create-home --shell /usr/sbin/nologin tender
fi
