package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

const (
	// failoverLeast is the failover timeout that masters are told for a framework that names none. Mesos removes such a
	// framework when its connection ends, and so does the gateway, as long as it lives: this is for when it does not.
	failoverLeast = time.Minute
	// teardownTimeout bounds how long the gateway waits for the removal of such a framework.
	teardownTimeout = 10 * time.Second
	// broughtTimeout is connectTimeout for a framework that brings its ID: after its former instance has gone, a
	// standby takes over only when that can't come back any more.
	broughtTimeout = 2 * connectTimeout
	// placesPrefix begins the keys of the framework's store that hold where its volumes are wanted.
	placesPrefix = "mesos/volume/"
)

var (
	errFailedOver = errors.New("Framework failed over")      //nolint:staticcheck // Mesos's words, which clients look for
	errRemoved    = errors.New("Framework has been removed") //nolint:staticcheck // as above
)

// session is one subscription of a framework: the scheduler of one Run of the SDK, and a stream of events.
type session struct {
	gateway *Gateway
	who     caller
	stream  string
	brought api.FrameworkID // the ID that the framework brings; "" if it has one of the masters or none
	out     *events
	ready   chan struct{} // closed when the framework has its ID
	done    chan struct{} // closed when Run has returned
	cancel  context.CancelCauseFunc
	err     error // why Run has returned, before done is closed

	mu        sync.Mutex
	framework *translate.Framework
	client    *framework.Client // set before ready is closed
	offers    offers
	launches  launches
	roles     roles
	unacked   map[string]api.Status // by uuid
	places    map[api.VolumeID]translate.Place
	hostnames map[api.AgentID]string     // of the agents that were offered
	changes   map[api.OperationID]change // operations whose outcome is awaited
}

// subscribe answers SUBSCRIBE, for as long as the stream goes on.
func (g *Gateway) subscribe(w http.ResponseWriter, r *http.Request, who caller, call *schedulerv1.Call_Subscribe) error {
	if r.Header.Get(streamHeader) != "" {
		return codec.Refuse(http.StatusBadRequest, "Subscribe calls should not include the '%s' header", streamHeader)
	}
	encoding, ok := codec.AnswerEncoding(r.Header)
	if !ok {
		return codec.Refuse(http.StatusNotAcceptable, "Expecting 'Accept' to allow 'application/x-protobuf' or 'application/json'")
	}
	s := &session{
		gateway: g, who: who, stream: newStreamID(), out: newEvents(encoding), ready: make(chan struct{}), done: make(chan struct{}),
		offers: newOffers(), launches: newLaunches(), unacked: make(map[string]api.Status), places: make(map[api.VolumeID]translate.Place),
		hostnames: make(map[api.AgentID]string), changes: make(map[api.OperationID]change),
	}
	config, err := s.read(call)
	if err == nil {
		err = g.begin(s, config)
	}
	if err != nil {
		if p := new(codec.Refusal); errors.As(err, &p) {
			return p
		}
		s.err = err
		_ = s.out.send(errorEvent(words(err))) // the queue has room for it
		close(s.done)
	} else {
		defer g.end(s)
	}
	select {
	case <-s.ready:
	case <-s.done:
		if p := unready(s.err); p != nil {
			return p
		}
	case <-r.Context().Done():
		return nil // nobody is there to be answered
	}
	w.Header().Set("Content-Type", encoding.ContentType())
	w.Header().Set(streamHeader, s.stream)
	w.WriteHeader(http.StatusOK)
	err = s.out.write(r.Context(), w, g.config.Heartbeat, s.done)
	g.log.Info("stream ended", "framework", string(s.id()), "why", err)
	return nil
}

// read takes in what the framework says of itself, and says what the SDK is told of it.
func (s *session) read(call *schedulerv1.Call_Subscribe) (framework.Config, error) {
	info := call.GetFrameworkInfo()
	f, err := translate.ReadFramework(info)
	if err != nil {
		return framework.Config{}, err
	}
	s.framework = f
	suppressed, err := f.SuppressedRoles(call.GetSuppressedRoles())
	if err != nil {
		return framework.Config{}, err
	}
	s.roles = newRoles(suppressed)
	if info.Principal == nil && s.who.name != "" {
		info.Principal = proto.String(s.who.name)
	}
	g := s.gateway
	config := framework.Config{
		Masters: g.config.Masters, Token: s.who.token, Dialer: g.config.Dialer, ConnectTimeout: connectTimeout, Logger: g.log,
		ID: api.FrameworkID(info.GetId().GetValue()), SuppressedRoles: suppressed,
	}
	if config.ID != "" && !minted.MatchString(string(config.ID)) {
		s.brought, config.ID, config.Standby, config.ConnectTimeout = config.ID, "", true, broughtTimeout
	}
	said := api.Framework{}
	if err := describe(&said, f, call.GetOfferConstraints()); err != nil {
		return framework.Config{}, err
	}
	config.Name, config.Roles, config.FailoverTimeout = nameOf(said.Name, s.brought), said.Roles, said.FailoverTimeout
	config.Constraint, config.MinOffer, config.Revocable = said.Constraint, said.MinOffer, said.Revocable
	config.Labels, config.Endpoints = said.Labels, said.Endpoints
	if len(suppressed) > 0 && len(suppressed) == len(config.Roles) {
		config.Suppressed, config.SuppressedRoles = true, nil
	}
	return config, nil
}

// minted are the IDs that masters give. Mesos takes any other ID that it does not know as well: frameworks bring those
// that a master of Mesos gave them, or make their own.
var minted = regexp.MustCompile("^framework-[0-9]+$")

// nameOf is the name of a framework for people, cut off where masters take no more of it. That of one that brings its ID
// has the ID as its end, and is its identity (R6).
func nameOf(name string, id api.FrameworkID) string {
	if id == "" {
		return strings.ToValidUTF8(name[:min(len(name), api.IDBytesMax)], "")
	}
	end := " " + string(id)
	return strings.ToValidUTF8(name[:min(len(name), max(api.IDBytesMax-len(end), 0))], "") + end
}

// called returns the framework's ID as the framework knows it.
func (s *session) called(id api.FrameworkID) api.FrameworkID { return cmp.Or(s.brought, id) }

// describe sets what masters are told of a framework, all but its ID.
func describe(said *api.Framework, f *translate.Framework, constraints *schedulerv1.OfferConstraints) (err error) {
	said.Name, said.Roles = f.Info.GetName(), f.TenderRoles()
	if said.Name == "" {
		said.Name = "mesos"
	}
	said.FailoverTimeout = max(f.FailoverTimeout(), failoverLeast)
	said.Revocable = f.Revocable()
	said.Labels = translate.Labels(f.Info.GetLabels())
	said.Endpoints = nil
	if url := f.Info.GetWebuiUrl(); url != "" {
		said.Endpoints = map[string]string{"webui": url}
	}
	if said.MinOffer, err = f.MinOffer(); err != nil {
		return err
	}
	said.Constraint, err = f.Constraint(constraints)
	return err
}

// begin starts the session's Run, after the end of the framework's former session here.
func (g *Gateway) begin(s *session, config framework.Config) error {
	ctx, cancel := context.WithCancelCause(g.life)
	s.cancel = cancel
	g.mu.Lock()
	switch {
	case g.life.Err() != nil:
		g.mu.Unlock()
		return codec.Refuse(http.StatusServiceUnavailable, "the gateway is stopping")
	case g.begun >= sessionsMax:
		g.mu.Unlock()
		return codec.Refuse(http.StatusServiceUnavailable, "%d frameworks are subscribed here, at most %d are allowed", g.begun, sessionsMax)
	}
	former := g.sessions[s.called(config.ID)]
	if former != nil && former.who.proof != s.who.proof {
		g.mu.Unlock()
		return codec.Refuse(http.StatusUnauthorized, "the credentials are not those with which the framework has subscribed")
	}
	g.begun++
	g.running.Add(1)
	g.mu.Unlock()
	if former != nil {
		former.cancel(errFailedOver)
		<-former.done
	}
	go func() {
		defer close(s.done)
		err := g.config.Run(ctx, config, s)
		if cause := context.Cause(ctx); err == nil && cause != nil && g.life.Err() == nil { // else it was torn down, or the gateway stops
			err = cause
		}
		if s.err = err; err != nil {
			_ = s.out.send(errorEvent(words(err))) // dropped if the framework has gone
		}
	}()
	return nil
}

// end ends a session whose stream has ended. A framework that does not want to outlive its connection is removed.
func (g *Gateway) end(s *session) {
	defer g.running.Done()
	if s.leaves() {
		removed, done := context.WithTimeout(g.life, teardownTimeout)
		if s.client.Teardown() == nil {
			select {
			case <-s.done:
			case <-removed.Done():
			}
		}
		done()
	}
	s.cancel(errors.New("the stream has ended"))
	<-s.done
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begun--
	if id := s.called(s.id()); g.sessions[id] == s {
		delete(g.sessions, id)
	}
}

// leaves says whether the framework is to be removed with its connection. It is not when a newer subscription has taken
// its place, or when it is the gateway that leaves.
func (s *session) leaves() bool {
	select {
	case <-s.done:
		return false
	case <-s.ready:
	default:
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.framework.FailoverTimeout() == 0 && s.gateway.life.Err() == nil
}

func (s *session) id() api.FrameworkID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return ""
	}
	return s.client.FrameworkID()
}

// unready is the answer to a subscription that never began for a reason that is not the framework's; nil for others,
// which are told by an ERROR on a stream.
func unready(err error) *codec.Refusal {
	e := new(api.Error)
	if !errors.As(err, &e) {
		return nil
	}
	switch {
	case strings.HasPrefix(e.Op, "token."), strings.HasPrefix(e.Op, "trust."), e.Op == "framework.join":
		return codec.Refuse(http.StatusUnauthorized, "%v", err)
	case e.Kind == api.Unavailable, e.Kind == api.NotLeader:
		return codec.Refuse(http.StatusServiceUnavailable, "No leader elected: %v", err)
	}
	return nil
}

// words says why a session has ended, in Mesos's words where it has some.
func words(err error) string {
	e := new(api.Error)
	switch {
	case errors.Is(err, framework.ErrFenced):
		return errFailedOver.Error()
	case errors.As(err, &e) && (e.Kind == api.Removed || e.Kind == api.NotFound):
		return errRemoved.Error()
	}
	return err.Error()
}

func newStreamID() string {
	var id [uuidBytes]byte
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// send queues an event, and ends the session if the framework does not read.
func (s *session) send(event *schedulerv1.Event) {
	if err := s.out.send(event); err != nil {
		s.gateway.log.Warn("event not sent", "framework", string(s.id()), "event", event.GetType().String(), "error", err)
		if errors.Is(err, errTooSlow) {
			s.cancel(err)
		}
	}
}

// Subscribed is called at the begin of each session with a leader. Of the later ones the framework learns nothing but
// that its offers are gone.
func (s *session) Subscribed(ctx context.Context, client *framework.Client) error {
	select {
	case <-s.ready:
		return nil
	default:
	}
	places, err := client.Store().List(ctx, placesPrefix)
	if err != nil {
		return err
	}
	records, err := client.Store().List(ctx, recordsPrefix)
	if err != nil {
		return err
	}
	id := s.called(client.FrameworkID())
	s.mu.Lock()
	for _, entry := range places {
		readPlace(s.places, entry)
	}
	s.client = client
	s.framework.Info.Id = &mesosv1.FrameworkID{Value: proto.String(string(id))}
	s.mu.Unlock()
	g := s.gateway
	g.mu.Lock()
	g.sessions[id] = s
	g.mu.Unlock()
	s.send(&schedulerv1.Event{Type: schedulerv1.Event_SUBSCRIBED.Enum(), Subscribed: &schedulerv1.Event_Subscribed{
		FrameworkId: s.framework.Info.GetId(), HeartbeatIntervalSeconds: proto.Float64(g.config.Heartbeat.Seconds()), MasterInfo: translate.MasterInfo(g.config.Address),
	}})
	s.send(heartbeatEvent())
	close(s.ready)
	return s.readRecords(records)
}

// offersPerEventMax keeps an event far below the 4 MiB that old clients read as one.
const offersPerEventMax = 1000

// Offers passes offers on. They are kept until the framework answers them. What a launch may need that fell through is
// shown when that has got its share.
func (s *session) Offers(ctx context.Context, offers []api.Offer) []api.Answer {
	answers := make([]api.Answer, len(offers))
	var shown []api.Offer
	hidden := 0
	s.mu.Lock()
	for i, offer := range offers {
		s.hostnames[offer.Agent] = offer.Hostname
		wanted := s.launches.wants(placeOf(offer)) || s.roles.woken[offer.Role]
		if s.roles.suppressed[offer.Role] && !wanted { // the leader has yet to hear that the gateway wants none any more
			answers[i] = api.Answer{Offers: []api.OfferID{offer.ID}, Filter: api.NoFilter}
			continue
		}
		answers[i] = api.Keep(offer)
		s.offers.open[offer.ID] = offer
		if wanted {
			hidden++
			s.offers.hidden[offer.ID] = true
		} else {
			shown = append(shown, offer)
		}
	}
	s.mu.Unlock()
	if hidden > 0 {
		s.client.After(0, s.relaunch)
	}
	s.show(ctx, shown)
	return answers
}

// show passes offers on that are open.
func (s *session) show(ctx context.Context, offers []api.Offer) {
	list := make([]*mesosv1.Offer, len(offers))
	ips := make([]string, len(offers))
	for i, offer := range offers {
		ips[i] = s.gateway.hosts.ip(ctx, offer.Hostname)
	}
	s.mu.Lock()
	for i, offer := range offers {
		offer.Framework = s.called(offer.Framework)
		list[i] = s.framework.WriteOffer(offer, ips[i], s.places)
	}
	s.mu.Unlock()
	for some := range slices.Chunk(list, offersPerEventMax) {
		s.send(&schedulerv1.Event{Type: schedulerv1.Event_OFFERS.Enum(), Offers: &schedulerv1.Event_Offers{Offers: some}})
	}
}

// Rescinded passes on that offers are gone.
func (s *session) Rescinded(_ context.Context, offers []api.OfferID, _ string) {
	for _, id := range offers {
		s.mu.Lock()
		shown, inverse := s.offers.lose(id), s.offers.inverse[id]
		delete(s.offers.inverse, id)
		s.mu.Unlock()
		switch {
		case shown:
			s.send(rescindEvent(id))
		case inverse:
			s.send(&schedulerv1.Event{Type: schedulerv1.Event_RESCIND_INVERSE_OFFER.Enum(),
				RescindInverseOffer: &schedulerv1.Event_RescindInverseOffer{InverseOfferId: &mesosv1.OfferID{Value: proto.String(string(id))}}})
		}
	}
}

// InverseOffers passes inverse offers on.
func (s *session) InverseOffers(_ context.Context, offers []api.InverseOffer) {
	list := make([]*mesosv1.InverseOffer, len(offers))
	s.mu.Lock()
	for i, offer := range offers {
		s.offers.inverse[offer.ID] = true
		offer.Framework = api.FrameworkID(s.framework.Info.GetId().GetValue())
		list[i] = s.framework.WriteInverseOffer(offer, translate.AddressOf(""))
	}
	s.mu.Unlock()
	s.send(&schedulerv1.Event{Type: schedulerv1.Event_INVERSE_OFFERS.Enum(), InverseOffers: &schedulerv1.Event_InverseOffers{InverseOffers: list}})
}

// Update passes a status on, and waits for its acknowledgement.
func (s *session) Update(ctx context.Context, status api.Status) error {
	ip := s.ip(ctx, status)
	s.mu.Lock()
	one, fell := s.launches.hear(&status)
	if one != nil && !fell {
		s.takeOut(one)
	}
	s.mu.Unlock()
	if fell {
		return s.hold(one)
	}
	if one != nil {
		s.tellFallen(one)
	}
	if one != nil && one.asked && status.Reason == api.ReasonReconciliation && !status.State.Terminal() {
		return nil // it is the gateway that has asked
	}
	s.mu.Lock()
	if status.State == api.TaskKilling && status.Reason != api.ReasonHealthCheckFailed && !s.framework.KnowsKilling() {
		s.mu.Unlock()
		return nil
	}
	written := s.framework.WriteStatus(status, ip)
	later := translate.NeedsAcknowledgement(status)
	if later {
		s.unacked[string(written.GetUuid())] = status
	}
	s.mu.Unlock()
	s.updateInTurn(status, written)
	if later {
		return framework.ErrLater
	}
	return nil
}

// ip returns an address of the agent of a status. The status of a task that has ended does not name its host.
func (s *session) ip(ctx context.Context, status api.Status) string {
	s.mu.Lock()
	host := cmp.Or(status.Hostname, s.hostnames[status.Agent])
	s.mu.Unlock()
	return s.gateway.hosts.ip(ctx, host)
}

func (s *session) update(status *mesosv1.TaskStatus) {
	s.send(&schedulerv1.Event{Type: schedulerv1.Event_UPDATE.Enum(), Update: &schedulerv1.Event_Update{Status: status}})
}

// Message passes on what an executor says.
func (s *session) Message(_ context.Context, agent api.AgentID, executor api.ExecutorID, data []byte) {
	s.send(&schedulerv1.Event{Type: schedulerv1.Event_MESSAGE.Enum(), Message: &schedulerv1.Event_Message{
		AgentId: translate.AgentID(agent), ExecutorId: translate.ExecutorID(executor), Data: data,
	}})
}

// ExecutorLost passes on that an executor of the framework's own has ended.
func (s *session) ExecutorLost(_ context.Context, agent api.AgentID, executor api.ExecutorID, _ string) {
	if executor == api.CommandExecutor {
		return
	}
	s.send(&schedulerv1.Event{Type: schedulerv1.Event_FAILURE.Enum(), Failure: &schedulerv1.Event_Failure{
		AgentId: translate.AgentID(agent), ExecutorId: translate.ExecutorID(executor), Status: proto.Int32(-1),
	}})
}

// AgentLost passes on that an agent was lost. Launches that fell through wait for it no longer.
func (s *session) AgentLost(_ context.Context, agent api.AgentID, _ bool, _ string) {
	s.mu.Lock()
	for _, one := range s.launches.held {
		if one.agent == agent {
			one.until = time.Now()
		}
	}
	s.mu.Unlock()
	s.relaunch()
	s.send(&schedulerv1.Event{Type: schedulerv1.Event_FAILURE.Enum(), Failure: &schedulerv1.Event_Failure{AgentId: translate.AgentID(agent)}})
}

// Refused notes that a master has refused a call: the SDK sends it after the framework was answered.
func (s *session) Refused(_ context.Context, call string, err error) {
	s.gateway.log.Warn("a master has refused a call", "framework", string(s.id()), "call", call, "error", err)
}
