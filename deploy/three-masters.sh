#!/bin/sh
# Makes a cluster of three masters on three machines that have the package (or the program in /usr/local/bin, the unit and
# the user tender), and that you reach by ssh as somebody who may sudo without a password:
#
#   deploy/three-masters.sh 10.0.0.1 10.0.0.2 10.0.0.3
#
# The first makes the key of the cluster; the others join it by a token that is deleted afterwards. It may be run again:
# a master that has a data folder is only started. SSH names another program that runs a command at a machine.
set -eu

if [ $# -ne 3 ]; then
	echo "usage: $0 ADDRESS ADDRESS ADDRESS (of three machines)" >&2
	exit 2
fi
SSH=${SSH:-ssh -o BatchMode=yes}
first=$1

# at MACHINE SCRIPT runs a script there as root; what it reads is its standard input.
at() {
	machine=$1
	shift
	$SSH "$machine" "sudo sh -euc '$*'"
}

# start MACHINE ID [MORE] writes the settings of a master and starts it.
start() {
	printf 'id = "%s"\nbind = "%s"\ndata-dir = "/var/lib/tender/master"\n%s\n' "$2" "$1" "${3:-}" |
		at "$1" "mkdir -p /etc/tender; cat >/etc/tender/master.toml; systemctl enable tender-master; systemctl start tender-master"
}

start "$first" m1
echo "m1 is started at $first"
# The first operator logs in there, as root, as soon as the master leads.
at "$first" "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	tender login --master $first:5060 --join /var/lib/tender/master/operator.token >/dev/null 2>&1 && exit 0
	sleep 1
done
echo \"m1 does not lead: see journalctl -u tender-master at $first\" >&2
exit 1"

n=2
for machine in "$2" "$3"; do
	if ! at "$machine" "test -e /var/lib/tender/master/cluster.key"; then
		# The token goes from machine to machine through this pipe: it is on no command line and in no file here.
		at "$first" "f=\$(mktemp -u); tender token create master -o \$f >&2; cat \$f; rm -f \$f" |
			at "$machine" "umask 077; mkdir -p /etc/tender; cat >/etc/tender/master.token; chown tender /etc/tender/master.token"
	fi
	start "$machine" "m$n" "master = \"$first:5060\"
join = \"/etc/tender/master.token\""
	echo "m$n is started at $machine"
	n=$((n + 1))
done

at "$first" "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
	test \$(tender raft peers | grep -c -e leader -e follower) = 3 && break
	sleep 1
done
tender get masters"
for machine in "$2" "$3"; do
	at "$machine" "rm -f /etc/tender/master.token; sed -i -e /^join/d -e /^master/d /etc/tender/master.toml"
done
echo "you log in from elsewhere by a token: tender token create operator -o FILE, at $first as root"
