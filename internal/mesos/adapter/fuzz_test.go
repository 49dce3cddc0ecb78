package adapter

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// FuzzCall: whatever is sent in place of a call, it is refused, and nothing breaks. (The adapter has no task, so that no
// call is valid.)
func FuzzCall(f *testing.F) {
	f.Add([]byte(`{"type":"UPDATE","executor_id":{"value":"x"},"framework_id":{"value":"f"}}`), true)
	f.Add([]byte{0x0a, 0x03, 0x0a, 0x01, 0x78, 0x12, 0x03, 0x0a, 0x01, 0x66, 0x18, 0x01}, false)
	a := &adapter{tasks: map[api.TaskID]*task{}, named: map[string]*task{}, config: Config{Log: new(zerolog.Nop())}}
	a.whose.framework = &mesosv1.FrameworkInfo{Id: &mesosv1.FrameworkID{Value: proto.String("f")}}
	a.whose.executor = &mesosv1.ExecutorInfo{ExecutorId: &mesosv1.ExecutorID{Value: proto.String("x")}}
	routes := a.routes()
	f.Fuzz(func(t *testing.T, body []byte, asJSON bool) {
		encoding := codec.Protobuf
		if asJSON {
			encoding = codec.JSON
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/executor", bytes.NewReader(body))
		request.Header.Set("Content-Type", encoding.ContentType())
		request.Header.Set("Accept", "text/plain") // no subscription begins
		answer := httptest.NewRecorder()
		routes.ServeHTTP(answer, request)
		switch answer.Code {
		case http.StatusAccepted, http.StatusBadRequest, http.StatusForbidden, http.StatusNotAcceptable, http.StatusNotImplemented:
		default:
			t.Errorf("answered %d", answer.Code)
		}
	})
}
