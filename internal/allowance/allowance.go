// Package allowance limits how much work per second a peer may cause. It has no clock and waits for nothing: it says
// how long a peer is to be held.
package allowance

import (
	"net"
	"net/netip"
	"time"
)

// SourceOf returns by which name the host at an address has an allowance. For IPv6 it is the /64 network, because a
// host usually has all of its addresses.
func SourceOf(from net.Addr) string {
	host, _, err := net.SplitHostPort(from.String())
	if err != nil {
		return from.String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && !ip.Is4In6() {
		network, _ := ip.WithZone("").Prefix(64) // an address has so many bits
		return network.String()
	}
	return host
}

// Rate says how fast an allowance grows, how much of it is kept unused at most, and how much there is at first. First
// should be little, so that nobody gets more by connecting again and again. The zero Rate has no limit.
type Rate struct{ PerSecond, Most, First float64 }

// chargedLongest bounds the debt for what is charged after the fact, as the time in which it grows back. It is less
// than a session timeout, so that nobody loses a session because of it.
const chargedLongest = time.Second

// Allowance is what a peer may still use. A peer that uses more than there is owes the rest. It is not safe for several
// goroutines at once.
type Allowance struct {
	rate Rate
	left float64
	at   time.Time
}

// New makes an allowance with that rate.
func New(rate Rate, now time.Time) Allowance { return Allowance{rate: rate, left: rate.First, at: now} }

// Take uses up an amount and returns how long it takes until nothing is owed.
func (a *Allowance) Take(now time.Time, amount float64) time.Duration {
	if a.rate.PerSecond == 0 {
		return 0
	}
	a.grow(now)
	if a.left -= amount; a.left >= 0 {
		return 0
	}
	return time.Duration(-a.left / a.rate.PerSecond * float64(time.Second))
}

// Charge uses up an amount for work that is done already. It never makes a debt that takes longer than a second to grow
// back.
func (a *Allowance) Charge(now time.Time, amount float64) {
	if a.rate.PerSecond == 0 {
		return
	}
	a.grow(now)
	a.left = min(a.left, max(a.left-amount, -a.rate.PerSecond*chargedLongest.Seconds()))
}

// Full reports whether the allowance is as large as it can be, so that its owner need not be remembered.
func (a *Allowance) Full(now time.Time) bool {
	a.grow(now)
	return a.rate.PerSecond == 0 || a.left >= a.rate.Most
}

// grow adds what has grown since the last call.
func (a *Allowance) grow(now time.Time) {
	if since := now.Sub(a.at).Seconds(); since > 0 {
		a.left, a.at = min(a.left+since*a.rate.PerSecond, a.rate.Most), now
	}
}
