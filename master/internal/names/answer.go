package names

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// Domain is the domain that holds all names.
	Domain = "tender."
	// agentsLabel is the label below which agents have their names. A framework with this name can only be asked for by
	// its ID.
	agentsLabel = "agents"
	// ttlSeconds is how long a resolver may keep an answer, also one that says that there is nothing.
	ttlSeconds = uint32(zoneAgeMax / time.Second)
	// recordsMax is how many endpoints an answer holds at most. If there are more, each answer begins with another one.
	recordsMax = 256
)

// asked is the name of a question, in parts.
type asked struct {
	apex      bool
	protocol  bool   // the name begins with "_tcp" or "_udp", without a port
	framework string // its label; agentsLabel if the name is that of an agent
	wanted           // the port, and the name of a task or an agent
}

// parse splits a name of the domain into its parts. It returns false for a name that can't exist.
func parse(name string) (asked, bool) {
	labels := dns.SplitDomainName(strings.ToLower(name))
	labels = labels[:len(labels)-1]
	var a asked
	switch {
	case len(labels) == 0:
		return asked{apex: true}, true
	case len(labels) > 1 && isProtocol(labels[1]):
		service, is := strings.CutPrefix(labels[0], "_")
		if !is || service == "" {
			return a, false
		}
		a.port, labels = service, labels[2:]
	case isProtocol(labels[0]):
		a.protocol, labels = true, labels[1:]
	}
	switch len(labels) {
	case 1:
		a.framework = labels[0]
	case 2:
		a.name, a.framework = labels[0], labels[1]
	default:
		return a, false
	}
	return a, true
}

func isProtocol(label string) bool { return label == "_tcp" || label == "_udp" }

// found is what was found for a name.
type found struct {
	exists    bool
	endpoints []endpoint   // at most recordsMax
	addresses []netip.Addr // those of an agent
}

// look finds what there is for the name of a question.
func (s *Server) look(ctx context.Context, a asked) (found, error) {
	if a.framework == agentsLabel {
		return s.lookAgent(a), nil
	}
	z, err := s.cache.find(ctx, a.framework)
	if err != nil || z == nil {
		return found{}, err
	}
	ready, exists := z.names[a.wanted]
	if len(ready) == 0 && z.notYet != nil {
		return found{}, z.notYet // there may be one that agents have yet to report
	}
	its := found{exists: exists}
	for i := range min(len(ready), recordsMax) {
		its.endpoints = append(its.endpoints, z.all[ready[(i+s.turn(len(ready)))%len(ready)]])
	}
	return its, nil
}

func (s *Server) lookAgent(a asked) found {
	if a.port != "" || a.protocol {
		return found{}
	}
	if a.name == "" {
		return found{exists: true}
	}
	address, known := s.cache.known().agents[a.name]
	if !known {
		return found{}
	}
	return found{exists: true, addresses: []netip.Addr{address}}
}

// answer returns the answer to a message with one question.
func (s *Server) answer(ctx context.Context, request *dns.Msg) *dns.Msg {
	reply := new(dns.Msg)
	reply.SetReply(request)
	question := request.Question[0]
	switch {
	case request.Opcode != dns.OpcodeQuery || question.Qtype == dns.TypeANY || question.Qtype == dns.TypeAXFR || question.Qtype == dns.TypeIXFR:
		reply.Rcode = dns.RcodeNotImplemented
		return reply
	case question.Qclass != dns.ClassINET || !dns.IsSubDomain(Domain, question.Name):
		reply.Rcode = dns.RcodeRefused
		return reply
	}
	reply.Authoritative = true
	a, possible := parse(question.Name)
	its := found{exists: a.apex}
	if possible && !a.apex {
		var err error
		if its, err = s.look(ctx, a); err != nil {
			reply.Rcode, reply.Authoritative = dns.RcodeServerFailure, false
			return reply
		}
	}
	if !its.exists {
		reply.Rcode = dns.RcodeNameError
	}
	if !a.protocol {
		addRecords(reply, question, its)
	}
	switch {
	case len(reply.Answer) > 0:
	case a.apex && question.Qtype == dns.TypeSOA:
		reply.Answer = []dns.RR{authority()}
	default:
		reply.Ns = []dns.RR{authority()}
	}
	return reply
}

// addRecords adds the records of the type that was asked for.
func addRecords(reply *dns.Msg, question dns.Question, its found) {
	switch question.Qtype {
	case dns.TypeA, dns.TypeAAAA:
		addAddresses(reply, question, its)
	case dns.TypeSRV:
		addServices(reply, question, its.endpoints)
	}
}

// addAddresses adds each address once.
func addAddresses(reply *dns.Msg, question dns.Question, its found) {
	for _, one := range its.endpoints {
		if one.address.IsValid() && !slices.Contains(its.addresses, one.address) {
			its.addresses = append(its.addresses, one.address)
		}
	}
	for _, address := range its.addresses {
		if record := addressRecord(question.Name, address); record.Header().Rrtype == question.Qtype {
			reply.Answer = append(reply.Answer, record)
		}
	}
}

// addServices adds the ports of endpoints with the names of their agents, and the addresses of these agents.
func addServices(reply *dns.Msg, question dns.Question, endpoints []endpoint) {
	told := map[string]bool{}
	for _, one := range endpoints {
		target := dns.Fqdn(one.host)
		if one.address.IsValid() {
			target = one.agent + "." + agentsLabel + "." + Domain
		}
		reply.Answer = append(reply.Answer, &dns.SRV{Hdr: header(question.Name, dns.TypeSRV), Weight: 1, Port: one.number, Target: target})
		if one.address.IsValid() && !told[target] {
			told[target] = true
			reply.Extra = append(reply.Extra, addressRecord(target, one.address))
		}
	}
}

// turn returns the index at which a list of this length begins in this answer. It differs from answer to answer, so
// that each item of a long list is told at times.
func (s *Server) turn(length int) int {
	if length <= 1 {
		return 0
	}
	return int(s.turns.Load() % uint64(length))
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttlSeconds}
}

func addressRecord(name string, address netip.Addr) dns.RR {
	if address.Is4() {
		return &dns.A{Hdr: header(name, dns.TypeA), A: address.AsSlice()}
	}
	return &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: address.AsSlice()}
}

// authority returns the record that says that this server has the domain, and for how long an answer without records
// may be kept.
func authority() dns.RR {
	const hour = 3600
	return &dns.SOA{
		Hdr: header(Domain, dns.TypeSOA), Ns: Domain, Mbox: "hostmaster." + Domain,
		Serial: 1, Refresh: hour, Retry: hour, Expire: hour, Minttl: ttlSeconds,
	}
}
