package names

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/hang"
	"github.com/tenderhq/tender/master/registry"
)

// played is a master whose tasks the test chooses.
type played struct {
	state *registry.State
	tasks map[api.FrameworkID][]*apiv1.TaskView
	err   error
	// notYet says that agents have yet to report.
	notYet *apiv1.Error
	reads  atomic.Int64
}

// pageSize is how many tasks a page of the list holds.
const pageSize = 100

func (p *played) source() Source {
	return Source{
		Index:    func() uint64 { return p.state.Index },
		Registry: func(read func(*registry.State)) { read(p.state) },
		Leader:   func() string { return "" },
		Tasks: func(_ context.Context, r *apiv1.ListTasksRequest) (*apiv1.ListTasksResponse, error) {
			if r.GetPageToken() == "" {
				p.reads.Add(1)
			}
			all, from := p.tasks[api.FrameworkID(r.GetFrameworkId())], 0
			if r.GetPageToken() != "" {
				from, _ = strconv.Atoi(r.GetPageToken())
			}
			answer := &apiv1.ListTasksResponse{Items: all[from:min(from+pageSize, len(all))], Incomplete: p.notYet}
			if from+pageSize < len(all) {
				answer.NextPageToken = strconv.Itoa(from + pageSize)
			}
			return answer, p.err
		},
	}
}

// play returns a master with three agents, one of which is reached by a name, and two frameworks called Web_App.
func play() *played {
	p := &played{
		state: &registry.State{Index: 1, Agents: map[api.AgentID]registry.Agent{}, Frameworks: map[api.FrameworkID]registry.Framework{}},
		tasks: map[api.FrameworkID][]*apiv1.TaskView{},
	}
	for id, address := range map[api.AgentID]string{"agent-1": "10.0.0.1:5051", "agent-2": "[fd00::2]:5051", "agent-3": "node-3.example:5051"} {
		p.state.Agents[id] = registry.Agent{Agent: api.Agent{ID: id, Address: address}}
	}
	for id, name := range map[api.FrameworkID]string{"framework-1": "Web_App", "framework-2": "Web_App", "framework-3": "agents"} {
		p.state.Frameworks[id] = registry.Framework{Framework: api.Framework{ID: id, Name: name}}
	}
	gone := registry.Framework{Framework: api.Framework{ID: "framework-4", Name: "gone"}, Removed: time.Unix(1, 0)}
	p.state.Frameworks[gone.Framework.ID] = gone
	p.put("framework-1", "web.0", "agent-1", map[string]uint32{"http": 31000, "admin": 31001})
	p.put("framework-1", "web.1", "agent-2", map[string]uint32{"http": 31000})
	p.put("framework-1", "web.2", "agent-3", map[string]uint32{"http": 31005})
	p.put("framework-1", "other.0", "agent-1", map[string]uint32{"http": 31007}).Healthy = new(bool)
	p.put("framework-1", "plain.0", "agent-1", nil)
	p.put("framework-2", "web.0", "agent-1", map[string]uint32{"http": 31008})
	p.put("framework-3", "db", "agent-1", map[string]uint32{"pg": 5432})
	return p
}

func (p *played) put(of api.FrameworkID, id, agent string, ports map[string]uint32) *apiv1.TaskView {
	task := &apiv1.TaskView{
		Id: id, FrameworkId: string(of), State: api.TaskRunning.String(), AgentId: agent, Ports: ports,
		AgentAddress: p.state.Agents[api.AgentID(agent)].Agent.Address,
	}
	p.tasks[of] = append(p.tasks[of], task)
	return task
}

// asking is a server on the loopback interface, with the test that asks it.
type asking struct {
	*Server
	t *testing.T
}

func serve(t *testing.T, p *played) asking {
	t.Helper()
	s, err := Open(Config{
		Address: "127.0.0.1:0", Source: p.source(), Metrics: prometheus.NewRegistry(),
		Bound: func(listener net.Listener, _ int64) net.Listener { return listener },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := hang.Receive(t, "the end", func() string { return "" }, ended); err != nil {
			t.Error(err)
		}
	})
	return asking{s, t}
}

// send sends a message over a real socket, and returns the answer.
func (a asking) send(by string, message *dns.Msg) *dns.Msg {
	a.t.Helper()
	client := dns.Client{Net: by, Timeout: hang.After}
	reply, _, err := client.Exchange(message, a.Address())
	if err != nil {
		a.t.Fatalf("%s %v: %v", by, message.Question, err)
	}
	return reply
}

func (a asking) ask(by, name string, kind uint16) *dns.Msg {
	a.t.Helper()
	return a.send(by, new(dns.Msg).SetQuestion(name, kind))
}

// texts returns records as words, sorted, without their times to live.
func texts(records []dns.RR) []string {
	var all []string
	for _, record := range records {
		fields := strings.Fields(record.String())
		all = append(all, strings.Join(append(fields[:1:1], fields[3:]...), " "))
	}
	slices.Sort(all)
	return all
}

// TestAnswers asks each question over UDP and over TCP.
func TestAnswers(t *testing.T) {
	a := serve(t, play())
	for _, story := range []struct {
		name string
		kind uint16
		code int
		want []string // answers; with "+" before, additional ones
	}{
		{"web.web-app.tender.", dns.TypeA, dns.RcodeSuccess, []string{"web.web-app.tender. A 10.0.0.1"}},
		{"web.web-app.tender.", dns.TypeAAAA, dns.RcodeSuccess, []string{"web.web-app.tender. AAAA fd00::2"}},
		{"WEB.Web-App.Tender.", dns.TypeA, dns.RcodeSuccess, []string{"WEB.Web-App.Tender. A 10.0.0.1"}},
		{"web.framework-1.tender.", dns.TypeSRV, dns.RcodeSuccess, []string{
			"+agent-1.agents.tender. A 10.0.0.1", "+agent-2.agents.tender. AAAA fd00::2",
			"web.framework-1.tender. SRV 0 1 31000 agent-1.agents.tender.", "web.framework-1.tender. SRV 0 1 31000 agent-2.agents.tender.",
			"web.framework-1.tender. SRV 0 1 31001 agent-1.agents.tender.", "web.framework-1.tender. SRV 0 1 31005 node-3.example.",
		}},
		{"_http._tcp.web-0.framework-1.tender.", dns.TypeSRV, dns.RcodeSuccess, []string{
			"+agent-1.agents.tender. A 10.0.0.1", "_http._tcp.web-0.framework-1.tender. SRV 0 1 31000 agent-1.agents.tender."}},
		{"_http._tcp.web-0.web-app.tender.", dns.TypeSRV, dns.RcodeSuccess, []string{
			"+agent-1.agents.tender. A 10.0.0.1", "_http._tcp.web-0.web-app.tender. SRV 0 1 31000 agent-1.agents.tender.",
			"_http._tcp.web-0.web-app.tender. SRV 0 1 31008 agent-1.agents.tender."}},
		{"_admin._udp.web-app.tender.", dns.TypeSRV, dns.RcodeSuccess, []string{
			"+agent-1.agents.tender. A 10.0.0.1", "_admin._udp.web-app.tender. SRV 0 1 31001 agent-1.agents.tender."}},
		{"web-app.tender.", dns.TypeA, dns.RcodeSuccess, []string{"web-app.tender. A 10.0.0.1"}},
		{"agent-2.agents.tender.", dns.TypeAAAA, dns.RcodeSuccess, []string{"agent-2.agents.tender. AAAA fd00::2"}},
		{"db.framework-3.tender.", dns.TypeA, dns.RcodeSuccess, []string{"db.framework-3.tender. A 10.0.0.1"}},

		// The name exists, but has no record of the type.
		{"web-0.framework-1.tender.", dns.TypeAAAA, dns.RcodeSuccess, nil},
		{"web.web-app.tender.", dns.TypeTXT, dns.RcodeSuccess, nil},
		{"other.web-app.tender.", dns.TypeSRV, dns.RcodeSuccess, nil}, // not ready
		{"_tcp.web.web-app.tender.", dns.TypeSRV, dns.RcodeSuccess, nil},
		{"agents.tender.", dns.TypeA, dns.RcodeSuccess, nil},
		{"tender.", dns.TypeA, dns.RcodeSuccess, nil},

		// The name does not exist.
		{"plain.web-app.tender.", dns.TypeA, dns.RcodeNameError, nil}, // it has no ports
		{"we.web-app.tender.", dns.TypeA, dns.RcodeNameError, nil},
		{"_ssh._tcp.web.web-app.tender.", dns.TypeSRV, dns.RcodeNameError, nil},
		{"web.nobody.tender.", dns.TypeA, dns.RcodeNameError, nil},
		{"gone.tender.", dns.TypeA, dns.RcodeNameError, nil},
		{"agent-3.agents.tender.", dns.TypeA, dns.RcodeNameError, nil}, // reached by another name
		{"db.agents.tender.", dns.TypeA, dns.RcodeNameError, nil},
		{"a.web.web-app.tender.", dns.TypeA, dns.RcodeNameError, nil},
		{"_tcp.tender.", dns.TypeSRV, dns.RcodeNameError, nil},
		{`web\.0.web-app.tender.`, dns.TypeA, dns.RcodeNameError, nil},

		// Questions for other domains, and for whole zones, are refused.
		{"example.com.", dns.TypeA, dns.RcodeRefused, nil},
		{"nottender.", dns.TypeA, dns.RcodeRefused, nil},
		{".", dns.TypeNS, dns.RcodeRefused, nil},
		{"web.web-app.tender.", dns.TypeANY, dns.RcodeNotImplemented, nil},
		{"tender.", dns.TypeAXFR, dns.RcodeNotImplemented, nil},
	} {
		for _, by := range []string{"udp", "tcp"} {
			if by == "udp" && story.kind == dns.TypeAXFR {
				continue
			}
			reply := a.ask(by, story.name, story.kind)
			got := texts(reply.Answer)
			for _, more := range texts(reply.Extra) {
				got = append(got, "+"+more)
			}
			slices.Sort(got)
			if reply.Rcode != story.code || !slices.Equal(got, story.want) {
				t.Errorf("%s %s by %s: %s\n%s\nwant %s\n%s", story.name, dns.TypeToString[story.kind], by,
					dns.RcodeToString[reply.Rcode], strings.Join(got, "\n"), dns.RcodeToString[story.code], strings.Join(story.want, "\n"))
			}
			ours := story.code == dns.RcodeSuccess || story.code == dns.RcodeNameError
			if reply.Authoritative != ours || reply.RecursionAvailable {
				t.Errorf("%s: authoritative %v, recursion %v", story.name, reply.Authoritative, reply.RecursionAvailable)
			}
			if nothing := ours && len(story.want) == 0; nothing != (len(reply.Ns) == 1 && reply.Ns[0].Header().Rrtype == dns.TypeSOA) {
				t.Errorf("%s: nothing there %v, and the authority is %v", story.name, nothing, reply.Ns)
			}
			for _, record := range slices.Concat(reply.Answer, reply.Ns, reply.Extra) {
				if record.Header().Ttl != 5 {
					t.Errorf("%s: %v", story.name, record)
				}
			}
		}
	}
	if got := a.ask("udp", "tender.", dns.TypeSOA).Answer; len(got) != 1 {
		t.Errorf("the domain's own record: %v", got)
	}
	if got := testutil.ToFloat64(a.questions.WithLabelValues("tcp", "notimp")); got != 2 {
		t.Errorf("%v questions over TCP were counted as not served", got)
	}
}

// TestLongAnswers: over UDP as much is sent as fits, and the answer is marked as truncated. Over TCP all is sent, up to
// a bound. Beyond it each answer holds other records.
func TestLongAnswers(t *testing.T) {
	p := play()
	for i := range recordsMax + 40 {
		p.put("framework-3", fmt.Sprintf("many.%d", i), "agent-1", map[string]uint32{"http": uint32(30000 + i)})
	}
	a := serve(t, p)
	const name = "many.framework-3.tender."
	size := func(reply *dns.Msg) int {
		reply.Compress = true // as it was sent
		return reply.Len()
	}
	if reply := a.ask("udp", name, dns.TypeSRV); !reply.Truncated || size(reply) > dns.MinMsgSize || len(reply.Answer) == 0 {
		t.Errorf("over UDP: truncated %v, %d bytes, %d answers", reply.Truncated, size(reply), len(reply.Answer))
	}
	message := new(dns.Msg).SetQuestion(name, dns.TypeSRV)
	message.SetEdns0(4096, false)
	packed := a.send("udp", message)
	if options := packed.IsEdns0(); !packed.Truncated || size(packed) > packetBytesMax || size(packed) < dns.MinMsgSize || options == nil {
		t.Errorf("over UDP with room: truncated %v, %d bytes, options %v", packed.Truncated, size(packed), options)
	}
	ports := map[uint16]bool{}
	for range 3 {
		reply := a.ask("tcp", name, dns.TypeSRV)
		if reply.Truncated || len(reply.Answer) != recordsMax {
			t.Fatalf("over TCP: truncated %v, %d answers", reply.Truncated, len(reply.Answer))
		}
		for _, record := range reply.Answer {
			ports[record.(*dns.SRV).Port] = true
		}
	}
	if len(ports) <= recordsMax {
		t.Errorf("the same %d ports are told each time", len(ports))
	}
	message.IsEdns0().SetVersion(1)
	if reply := a.send("udp", message); reply.Rcode != dns.RcodeBadVers {
		t.Errorf("a newer version of EDNS: %s", dns.RcodeToString[reply.Rcode])
	}
}

// TestIllMessages: a message that is no question gets an answer that says so, or none, and the next question is
// answered.
func TestIllMessages(t *testing.T) {
	a := serve(t, play())
	two := new(dns.Msg).SetQuestion("web.web-app.tender.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	update := new(dns.Msg).SetUpdate("tender.")
	chaos := new(dns.Msg).SetQuestion("web.web-app.tender.", dns.TypeA)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	notify := new(dns.Msg).SetNotify("tender.")
	for _, story := range []struct {
		message *dns.Msg
		code    int
	}{{two, dns.RcodeFormatError}, {update, dns.RcodeNotImplemented}, {chaos, dns.RcodeRefused}, {notify, dns.RcodeNotImplemented}} {
		if reply := a.send("udp", story.message); reply.Rcode != story.code {
			t.Errorf("%v: %s, want %s", story.message.Question, dns.RcodeToString[reply.Rcode], dns.RcodeToString[story.code])
		}
	}
	conn, err := net.Dial("udp", a.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, noise := range [][]byte{nil, {0}, slices.Repeat([]byte{0xff}, 600), append(make([]byte, 12), 0xc0, 0x0c)} {
		if _, err := conn.Write(noise); err != nil {
			t.Fatal(err)
		}
	}
	if reply := a.ask("udp", "web.web-app.tender.", dns.TypeA); len(reply.Answer) != 1 {
		t.Errorf("after noise: %v", reply)
	}
}

// TestTooManyAtATime: a question that comes while all places are taken is dropped over UDP, and refused over TCP.
func TestTooManyAtATime(t *testing.T) {
	a := serve(t, play())
	for range answersMax {
		a.places <- struct{}{}
	}
	if reply := a.ask("tcp", "web.web-app.tender.", dns.TypeA); reply.Rcode != dns.RcodeServerFailure {
		t.Errorf("over TCP: %s", dns.RcodeToString[reply.Rcode])
	}
	a.serve(nil, new(dns.Msg).SetQuestion("web.web-app.tender.", dns.TypeA), "udp") // it would write to nil
	if got := testutil.ToFloat64(a.questions.WithLabelValues("udp", "dropped")); got != 1 {
		t.Errorf("%v were dropped", got)
	}
	<-a.places
	if reply := a.ask("udp", "web.web-app.tender.", dns.TypeA); len(reply.Answer) != 1 {
		t.Errorf("with a place: %v", reply)
	}
}

// TestASourceIsSentSoMuch: a source that was sent too many bytes over UDP gets no answers there, only that it should ask
// over TCP, and that in no more bytes than it asked with.
func TestASourceIsSentSoMuch(t *testing.T) {
	a := serve(t, play())
	a.sources.take(&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, 1000*sourceBytesMax)
	question := new(dns.Msg).SetQuestion("web.web-app.tender.", dns.TypeA)
	question.SetEdns0(packetBytesMax, false)
	if reply := a.send("udp", question); !reply.Truncated || len(reply.Answer) > 0 || reply.Len() > question.Len() {
		t.Errorf("over UDP: %d bytes after a question of %d: %v", reply.Len(), question.Len(), reply)
	}
	if reply := a.send("tcp", question); reply.Truncated || len(reply.Answer) != 1 {
		t.Errorf("over TCP: %v", reply)
	}
	if got := testutil.ToFloat64(a.questions.WithLabelValues("udp", "truncated")); got != 1 {
		t.Errorf("%v are counted as truncated", got)
	}
}

// TestSourcesAreApart: each address has an allowance of its own, which grows again, and so have networks of IPv6. Those
// that find no room share one, until others are forgotten whose allowance is full.
func TestSourcesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSources()
		v4 := func(n int) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 0, byte(n>>8), byte(n)), Port: 1 + n} }
		v6 := func(host byte) net.Addr { return &net.UDPAddr{IP: net.IP{0: 0xfd, 15: host}} }
		for _, from := range []net.Addr{v4(1), v6(1)} {
			if s.take(from, sourceBytesMax); !s.hasLeft(from) {
				t.Errorf("%s has used up no more than it may", from)
			}
			if s.take(from, sourceBytesPerSecond); s.hasLeft(from) {
				t.Errorf("%s has used up more than it may", from)
			}
		}
		if !s.hasLeft(v4(2)) || s.hasLeft(v6(2)) {
			t.Error("another address has its own allowance, and another one of the same network of IPv6 has not")
		}
		for i := range 2 * sourcesMax {
			s.take(v4(i), 1)
		}
		if s.take(v4(sourcesMax+7), sourceBytesMax+1); s.hasLeft(v4(sourcesMax + 8)) {
			t.Error("those without room do not share an allowance")
		}
		pass(2 * time.Second)
		if !s.hasLeft(v4(1)) || !s.hasLeft(v4(sourcesMax+8)) || len(s.known) > sourcesMax {
			t.Errorf("after two seconds; %d are known", len(s.known))
		}
	})
}

// TestAFloodIsOver: after more questions than can be read in time, and beside connections that say nothing, a question
// that is repeated is answered, and no place stays taken. A single question may be lost with those for which the
// kernel's queue has no room.
func TestAFloodIsOver(t *testing.T) {
	a := serve(t, play())
	for range 2 * connectionsMax {
		silent, err := net.Dial("tcp", a.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	flood, err := net.Dial("udp", a.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	question := new(dns.Msg).SetQuestion("web.web-app.tender.", dns.TypeA)
	packet, err := question.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 * answersMax {
		if _, err := flood.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	resolver := dns.Client{Timeout: 100 * time.Millisecond}
	for end := time.Now().Add(hang.After); ; {
		reply, _, err := resolver.Exchange(question, a.Address())
		if err == nil && len(reply.Answer) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v: %v", err, reply)
		}
	}
	free := make(chan struct{})
	go func() {
		defer close(free)
		for range answersMax {
			a.places <- struct{}{}
		}
	}()
	hang.Receive(t, "all places to be given back", func() string { return fmt.Sprint(len(a.places), " are taken") }, free)
}

// pass lets time pass in the bubble.
func pass(long time.Duration) { <-time.After(long) }

// TestLeadersAreAskedSeldom: the leader is asked for a framework at most once in five seconds, and never for a name
// that no framework has. While no leader answers, what was read last is told for a minute, and then nothing.
func TestLeadersAreAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play()
		ctx, cancel := context.WithCancel(t.Context())
		c := newCache(ctx, p.source())
		find := func(label string) (endpoints int, err error) {
			z, err := c.find(t.Context(), label)
			if z != nil {
				endpoints = len(z.all)
			}
			return endpoints, err
		}
		check := func(when, label string, endpoints int, fails bool, reads int64) {
			t.Helper()
			got, err := find(label)
			if got != endpoints || (err != nil) != fails || p.reads.Load() != reads {
				t.Errorf("%s: %d endpoints, %v, %d reads; want %d, %v, %d", when, got, err, p.reads.Load(), endpoints, fails, reads)
			}
		}
		check("nobody's", "nobody", 0, false, 0)
		check("first", "framework-3", 1, false, 1)
		p.put("framework-3", "db2", "agent-1", map[string]uint32{"pg": 5433})
		pass(zoneAgeMax - 1)
		check("young", "framework-3", 1, false, 1)
		pass(time.Nanosecond)
		check("old", "framework-3", 2, false, 2)

		p.err = errors.New("nobody leads")
		pass(zoneAgeMax)
		check("without a leader", "framework-3", 2, false, 3)
		check("at once again", "framework-3", 2, false, 3)
		check("another", "framework-1", 0, true, 4)
		check("another again", "framework-1", 0, true, 4)
		pass(retryAfter)
		check("a second later", "framework-1", 0, true, 5)
		pass(zoneStaleMax)
		check("stale", "framework-3", 0, true, 6)
		p.err = nil
		pass(retryAfter)
		check("with a leader", "framework-3", 2, false, 7)

		p.state.Frameworks["framework-5"] = registry.Framework{Framework: api.Framework{ID: "framework-5", Name: "framework-3"}}
		p.state.Index++
		p.put("framework-5", "db", "agent-1", map[string]uint32{"pg": 5434})
		pass(directoryAgeMax)
		check("one more of the name", "framework-3", 3, false, 9)
		cancel()
		c.reads.Wait()
	})
}

// TestOneReadingForAll: however many questions come at a time, the leader is asked once. The reading goes on when one
// of those that wait gives up.
func TestOneReadingForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, release := play(), make(chan struct{})
		source := p.source()
		tasks := source.Tasks
		source.Tasks = func(ctx context.Context, r *apiv1.ListTasksRequest) (*apiv1.ListTasksResponse, error) {
			<-release
			return tasks(ctx, r)
		}
		c := newCache(t.Context(), source)
		hasty, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := c.find(hasty, "framework-1")
			left <- err
		}()
		came := make(chan int, 20)
		for range cap(came) {
			go func() {
				z, err := c.find(t.Context(), "framework-1")
				if err != nil {
					t.Error(err)
				}
				came <- len(z.all)
			}()
		}
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(release)
		for range cap(came) {
			if got := <-came; got != 4 {
				t.Errorf("%d endpoints", got)
			}
		}
		if got := p.reads.Load(); got != 1 {
			t.Errorf("the leader was asked %d times", got)
		}
	})
}

// TestBounds: for one label too many the oldest is dropped, and endpoints beyond the bound are left out.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play()
		for i := range zonesMax {
			id := api.FrameworkID(fmt.Sprintf("f%d", i))
			p.state.Frameworks[id] = registry.Framework{Framework: api.Framework{ID: id, Name: string(id)}}
		}
		for i := range endpointsMax + 5 {
			p.put("framework-3", fmt.Sprintf("n.%d", i), "agent-1", map[string]uint32{"http": uint32(1 + i)})
		}
		c := newCache(t.Context(), p.source())
		z, err := c.find(t.Context(), "framework-3")
		if err != nil || len(z.all) != endpointsMax || !z.full {
			t.Errorf("%d endpoints, full %v, %v", len(z.all), z.full, err)
		}
		pass(time.Millisecond)
		for i := range zonesMax {
			if _, err := c.find(t.Context(), fmt.Sprintf("f%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if kept := slices.Collect(maps.Keys(c.slots)); len(kept) != zonesMax || slices.Contains(kept, "framework-3") {
			t.Errorf("%d are kept, the oldest among them: %v", len(kept), slices.Contains(kept, "framework-3"))
		}
	})
}

// TestLabels: every name becomes a label, and always the same one.
func TestLabels(t *testing.T) {
	long := strings.Repeat("a", 70)
	for name, want := range map[string]string{
		"web": "web", "Web_App 2": "web-app-2", "-x-": "x", "a.b": "a-b", "größe": "gr--e", "": "x-e3b0c442", "___": "x-bda25155",
		long: strings.Repeat("a", 54) + "-6bd5e503", strings.Repeat("b", 63): strings.Repeat("b", 63),
	} {
		if got := Label(name); got != want || len(got) > labelBytesMax {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	if got, want := labelsOf("shop.r1.web.0", "Shop"), []string{"shop", "shop-r1", "shop-r1-web", "shop-r1-web-0"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := labelsOf(".a"+strings.Repeat(".b", 100), ""); len(got) != prefixesMax+1 {
		t.Errorf("%d labels: %v", len(got), got)
	}
}

// FuzzAnswer: no message makes the server panic, and every answer fits.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"web.web-app.tender.", "_http._tcp.web.web-app.tender.", "tender.", "_tcp._tcp.tender.", "example."} {
		packed, err := new(dns.Msg).SetQuestion(name, dns.TypeSRV).Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	s := &Server{cache: newCache(context.Background(), play().source())}
	f.Fuzz(func(t *testing.T, packet []byte) {
		request := new(dns.Msg)
		if request.Unpack(packet) != nil || len(request.Question) != 1 {
			return
		}
		reply := s.answer(t.Context(), request)
		fit(reply, request, "udp")
		if packed, err := reply.Pack(); err != nil || len(packed) > packetBytesMax {
			t.Errorf("%d bytes, %v", len(packed), err)
		}
	})
}
