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
	// Domain is below which all names are.
	Domain = "tender."
	// agentsLabel is where the names of agents are. A framework of this name is reached by its ID.
	agentsLabel = "agents"
	// ttlSeconds is how long an answer may be kept, also one that there is nothing.
	ttlSeconds = uint32(zoneAgeMax / time.Second)
	// recordsMax bounds the records of an answer. Of more, others are told each time.
	recordsMax = 256
)

// asked is a question in parts.
type asked struct {
	apex      bool
	protocol  bool   // nothing but "_tcp" or "_udp" stands before
	framework string // the label; agentsLabel is that of the agents
	wanted           // of it; the name is a task's or an agent's
}

// parse takes a name in the domain apart; false: there can be none like it.
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

// found is what there is of a name.
type found struct {
	exists    bool
	endpoints []endpoint   // at most recordsMax
	addresses []netip.Addr // of an agent
}

// look finds what a question is about.
func (s *Server) look(ctx context.Context, a asked) (found, error) {
	if a.framework == agentsLabel {
		return s.lookAgent(a), nil
	}
	z, err := s.cache.find(ctx, a.framework)
	if err != nil || z == nil {
		return found{}, err
	}
	ready, exists := z.names[a.wanted]
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

// answer is the answer to a message of one question.
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

// addRecords adds what there is of the type that was asked for.
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

// addServices adds ports with the names of the agents where they are, and the addresses of these.
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

// turn is where a list begins this time, so that all of a long one are told in turn.
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

// authority says that the domain is ours, and for how long it counts that there is nothing.
func authority() dns.RR {
	const hour = 3600
	return &dns.SOA{
		Hdr: header(Domain, dns.TypeSOA), Ns: Domain, Mbox: "hostmaster." + Domain,
		Serial: 1, Refresh: hour, Retry: hour, Expire: hour, Minttl: ttlSeconds,
	}
}
