package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
)

const (
	// headerBytesMax and answerBytesMax bound what is read of an answer. The body of an HTTP answer is not read.
	headerBytesMax = 64 << 10
	answerBytesMax = 4 << 10
	// whyBytesMax bounds what is told of a failure, because the task chooses the text of its answers.
	whyBytesMax = 200
)

var errCommand = errors.New("commands are run by the built-in executor only")

// Probe makes a check over one of the task's ports, and returns what it has found, and why it has failed; nil: it has
// passed. The context limits its time.
func Probe(ctx context.Context, ports map[string]uint16, check api.Check) (api.CheckResult, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[check.PortName()])))
	found, err := api.CheckResult{Kind: check.Kind(), Known: true}, errCommand
	switch {
	case check.HTTP != nil:
		found.Code, err = probeHTTP(ctx, address, cmp.Or(check.HTTP.Path, "/"))
		found.Known = found.Code != 0
	case check.TCP != nil:
		err = probeTCP(ctx, address)
	case check.GRPC != nil:
		err = probeGRPC(ctx, address, check.GRPC.Service)
	}
	found.Passed = err == nil
	return found, Explain(ctx, err)
}

// Explain turns the failure of a check into a short sentence.
func Explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errors.New("it took longer than its timeout")
	}
	why := strings.ToValidUTF8(err.Error(), "?")
	if len(why) > whyBytesMax {
		why = strings.ToValidUTF8(why[:whyBytesMax], "") + "…"
	}
	return errors.New(why)
}

// visitor makes each request on a connection of its own and follows no redirects.
var visitor = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: headerBytesMax},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// probeHTTP returns the status code of the answer; 0: there was none.
func probeHTTP(ctx context.Context, address, path string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("User-Agent", "tender-check")
	answer, err := visitor.Do(request)
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // the path and the address are known
	}
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 399 {
		return answer.StatusCode, fmt.Errorf("it answered %s", answer.Status)
	}
	return answer.StatusCode, nil
}

func probeTCP(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func probeGRPC(ctx context.Context, address, service string) error {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(answerBytesMax)))
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	switch {
	case err != nil:
		return fmt.Errorf("%v: %s", status.Code(err), status.Convert(err).Message())
	case answer.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		return fmt.Errorf("it answered %v", answer.GetStatus())
	}
	return nil
}
