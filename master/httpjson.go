package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/forward"
	"github.com/tenderhq/tender/master/internal/intake"
)

// jsonHandler serves every unary method of the operator's services: as POST /v1/METHOD with a JSON body, or, for
// methods that only read, as GET /v1/METHOD?field=value.
type jsonHandler struct {
	http    *httpServer
	methods map[string]jsonMethod
}

type jsonMethod struct {
	server any
	desc   grpc.MethodDesc
	name   string // the full method name in gRPC
}

func (s *httpServer) newJSONHandler() *jsonHandler {
	h := &jsonHandler{http: s, methods: make(map[string]jsonMethod)}
	h.add(apiv1.OperatorService_ServiceDesc, s.services.operator)
	h.add(apiv1.RaftService_ServiceDesc, s.services.raft)
	h.add(forward.Service(), s.services.jobs)
	h.add(apiv1.WatchService_ServiceDesc, s.services.watch)
	return h
}

func (h *jsonHandler) add(desc grpc.ServiceDesc, server any) {
	for _, method := range desc.Methods {
		h.methods[method.MethodName] = jsonMethod{server, method, "/" + desc.ServiceName + "/" + method.MethodName}
	}
}

func (h *jsonHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/v1/")
	method, known := h.methods[name]
	if !known {
		writeError(w, api.E("http", api.NotFound, name, errors.New("no such method; the methods are those of OperatorService, RaftService, JobService and WatchService, such as /v1/ListAgents")))
		return
	}
	ctx, err := h.http.guard.Admit(r.Context(), method.name)
	if err != nil {
		h.deny(ctx, method, name, w, r, err)
		return
	}
	decode, err := decoder(name, w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	body, read, err := answerTo(ctx, h.http.calls, method, decode, wire.JSON, func(body []byte) int { return len(body) })
	defer read()
	if err != nil {
		writeError(w, h.http.overHTTP(wire.Error(err)))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// deny refuses a call. If the audit log has a line for such calls, the request is read first, so that the line can name
// it.
func (h *jsonHandler) deny(ctx context.Context, method jsonMethod, name string, w http.ResponseWriter, r *http.Request, err error) {
	h.http.calls.tellDenied(ctx, err, func() error {
		decode, err := decoder(name, w, r)
		if err != nil {
			return err
		}
		_, read, err := answerTo(ctx, h.http.calls, method, decode, wire.JSON, func(body []byte) int { return len(body) })
		read()
		return err
	})
	writeError(w, err)
}

// answerTo calls a method and converts its answer with shape. The answer counts as unread until read is called.
func answerTo[A any](
	ctx context.Context, c *calls, method jsonMethod, decode func(any) error, shape func(proto.Message) (A, error), size func(A) int,
) (shaped A, read func(), err error) {
	read = func() {}
	_, err = method.desc.Handler(method.server, ctx, decode,
		func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			return c.unary(ctx, request, info, func(ctx context.Context, request any) (_ any, err error) {
				shaped, read, err = intake.Answer(ctx, intake.SenderOf(ctx), intake.OnlyLooks(method.name), size, func() (none A, err error) {
					answer, err := handle(ctx, request)
					if err != nil {
						return none, err
					}
					message, is := answer.(proto.Message)
					if !is {
						return none, api.E("http", api.Internal, method.name, fmt.Errorf("the answer is a %T", answer))
					}
					return shape(message)
				})
				return nil, err
			})
		})
	return shaped, read, err
}

// ask makes a call for the page, whose requests are messages already. What the page shows of the answer is bounded, so the
// answer no longer counts as unread.
func (h *jsonHandler) ask(ctx context.Context, method string, request proto.Message) (proto.Message, error) {
	decode := func(into any) error {
		if message, is := into.(proto.Message); is {
			proto.Merge(message, request)
		}
		return nil
	}
	same := func(message proto.Message) (proto.Message, error) { return message, nil }
	answer, read, err := answerTo(ctx, h.http.calls, h.methods[method[strings.LastIndexByte(method, '/')+1:]], decode, same, proto.Size)
	read()
	return answer, err
}

// decoder returns a function that fills the method's request from the HTTP request.
func decoder(name string, w http.ResponseWriter, r *http.Request) (func(any) error, error) {
	switch {
	case r.Method == http.MethodGet && intake.OnlyLooks(name):
		return func(request any) error { return fromQuery(r.URL.Query(), request) }, nil
	case r.Method == http.MethodGet:
		return nil, api.E("http", api.Invalid, name, errors.New("this method changes something; use POST"))
	case r.Method != http.MethodPost:
		return nil, api.E("http", api.Invalid, name, fmt.Errorf("use GET or POST, not %s", r.Method))
	}
	// A page of another site can't send this type without asking first (CORS).
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, api.E("http", api.Invalid, name, errors.New("send Content-Type: application/json"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, receiveBytesMax))
	if err != nil {
		return nil, api.E("http", api.Invalid, name, err)
	}
	return func(request any) error {
		if len(strings.TrimSpace(string(body))) == 0 {
			return nil
		}
		return fromJSON(body, request)
	}, nil
}

func fromJSON(body []byte, request any) error {
	message, ok := request.(proto.Message)
	if !ok {
		return api.E("http", api.Internal, "", fmt.Errorf("the request is a %T", request))
	}
	return wire.FromJSON(body, message)
}

// fromQuery reads limit=10&states=RUNNING&states=BUSY as {"limit":"10","states":[...]}.
func fromQuery(query url.Values, request any) error {
	message, ok := request.(proto.Message)
	if !ok {
		return api.E("http", api.Internal, "", fmt.Errorf("the request is a %T", request))
	}
	object := make(map[string]any, len(query))
	fields := message.ProtoReflect().Descriptor().Fields()
	for name, values := range query {
		field := fields.ByName(protoreflect.Name(name))
		if field == nil {
			return api.E("http", api.Invalid, name, fmt.Errorf("no such field; there are %s", fieldNames(fields)))
		}
		list := make([]any, len(values))
		for i, value := range values {
			list[i] = fromText(field, value)
		}
		switch {
		case field.IsList():
			object[name] = list
		case len(list) > 1:
			return api.E("http", api.Invalid, name, errors.New("it is given more than once"))
		default:
			object[name] = list[0]
		}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return api.E("http", api.Invalid, "", err)
	}
	return wire.FromJSON(body, message)
}

// fromText converts a value of a query to JSON. Numbers may be strings there; booleans may not.
func fromText(field protoreflect.FieldDescriptor, value string) any {
	if field.Kind() == protoreflect.BoolKind {
		switch value {
		case "true", "1", "":
			return true
		case "false", "0":
			return false
		}
	}
	return value
}

func fieldNames(fields protoreflect.FieldDescriptors) string {
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return strings.Join(names, ", ")
}

// seconds returns a duration in the form that the header Retry-After has.
func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// overHTTP returns the error as a client over HTTP can use it: where it names the leader, it names its HTTP address.
func (s *httpServer) overHTTP(e *api.Error) *api.Error {
	if e.Kind != api.NotLeader || wire.LeaderOf(e) == "" {
		return e
	}
	id, _ := s.leading.leader()
	if address := s.raft.Outline().Masters[id].HTTP; address != "" {
		return wire.NotLeader(e.Op, address)
	}
	return api.E(e.Op, api.NotLeader, "", errors.New("the leader has no HTTP address; use gRPC, or 'tender' itself"))
}

// writeError answers {"error":{"kind":…,"message":…,"subject":…}}. A NotLeader error also names the leader's HTTP
// address. If the error says when to retry, the header Retry-After says so too.
func writeError(w http.ResponseWriter, err error) {
	type body struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Subject string `json:"subject"`
		Leader  string `json:"leader,omitempty"`
	}
	e := wire.Error(err)
	code := wire.HTTPCode(e.Kind)
	if errors.Is(err, context.Canceled) {
		code = 499 // the client has gone, so nobody reads this
	}
	if after := api.RetryAfter(e); after > 0 {
		w.Header().Set("Retry-After", seconds(after))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]body{"error": {e.Kind.String(), e.Error(), e.Subject, wire.LeaderOf(e)}})
}
