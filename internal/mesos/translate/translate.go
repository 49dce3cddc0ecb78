// Package translate says in Tender's nouns what a framework of Mesos says, and the other way round: frameworks, offers,
// resources, tasks, statuses, operations. It has no state, clock or I/O: the same value gives the same result.
//
// What Tender has no equivalent for is refused, in Mesos's words where Mesos has some; nothing that a framework asks for
// is left out silently if a task could tell the difference.
package translate

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/mesos"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// EscapeID makes an identifier of Mesos, which may hold spaces, one of Tender, which may not. UnescapeID is its inverse.
func EscapeID(id string) string {
	if !strings.ContainsFunc(id, escapes) {
		return id
	}
	var b strings.Builder
	for _, r := range id {
		if !escapes(r) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(string(r)) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func escapes(r rune) bool {
	return r == '%' || unicode.IsSpace(r) || strings.ContainsRune("()[]{};=", r)
}

// UnescapeID returns the identifier that EscapeID was given.
func UnescapeID(id string) string {
	if !strings.Contains(id, "%") {
		return id
	}
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		var c byte
		if id[i] == '%' && i+2 < len(id) {
			if _, err := fmt.Sscanf(id[i+1:i+3], "%02X", &c); err == nil {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(id[i])
	}
	return b.String()
}

// DefaultRole is Mesos's role for who names none. It is Tender's [api.DefaultRole].
const DefaultRole = "*"

// Role returns the role that Mesos calls so.
func Role(role string) api.Role {
	if role == "" || role == DefaultRole {
		return api.DefaultRole
	}
	return api.Role(role)
}

// Labels makes Mesos's list a map. Of several values of a key the last one counts; a label without a value has "".
func Labels(labels *mesosv1.Labels) map[string]string {
	if len(labels.GetLabels()) == 0 {
		return nil
	}
	all := make(map[string]string, len(labels.GetLabels()))
	for _, label := range labels.GetLabels() {
		all[label.GetKey()] = label.GetValue()
	}
	return all
}

// MesosLabels is the inverse of Labels, by sorted key.
func MesosLabels(labels map[string]string) *mesosv1.Labels {
	if len(labels) == 0 {
		return nil
	}
	all := new(mesosv1.Labels)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all.Labels = append(all.Labels, &mesosv1.Label{Key: ptr(key), Value: ptr(labels[key])})
	}
	return all
}

func ptr[T any](value T) *T { return &value }

var errUnsupported = errors.New("there is no equivalent; docs/from-mesos.md lists what works")

func unsupported(what string) error {
	return fmt.Errorf("%s is not supported: %w", what, errUnsupported)
}

// MasterInfo describes a gateway at this address, HOST:PORT, as the leading master.
func MasterInfo(address string) *mesosv1.MasterInfo {
	host, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	ip := AddressOf(host)
	var packed uint32 // as Mesos packs it: the first byte lowest
	for i, b := range net.ParseIP(ip).To4() {
		packed |= uint32(b) << (8 * i)
	}
	return &mesosv1.MasterInfo{
		Id: ptr("gateway-" + address), Ip: &packed, Port: ptr(uint32(port)), Hostname: &host, Pid: ptr("master@" + address), Version: ptr(mesos.Version),
		Address: &mesosv1.Address{Hostname: &host, Ip: &ip, Port: ptr(int32(port))},
	}
}

// AddressOf returns the host if it is an address, else an address of IPv4 among those that were found for it, else any of
// them, else the loopback's.
func AddressOf(host string, found ...net.IP) string {
	if ip := net.ParseIP(host); ip != nil {
		return ip.String()
	}
	for _, ip := range found {
		if ip.To4() != nil {
			return ip.String()
		}
	}
	for _, ip := range found {
		return ip.String()
	}
	return "127.0.0.1"
}
