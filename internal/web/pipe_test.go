package web_test

import (
	"io"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// pipe is an answer that is read while it is written.
type pipe struct {
	*io.PipeWriter
	header http.Header
}

func newPipe() (io.Reader, *pipe) {
	reader, writer := io.Pipe()
	return reader, &pipe{writer, http.Header{}}
}

func (p *pipe) Header() http.Header            { return p.header }
func (*pipe) WriteHeader(int)                  {}
func (*pipe) FlushError() error                { return nil }
func (*pipe) SetReadDeadline(time.Time) error  { return nil }
func (*pipe) SetWriteDeadline(time.Time) error { return nil }

// views are the addresses of all views, those of a thing with this name.
func views(name string) []string {
	path, query := url.PathEscape(name), url.QueryEscape(name)
	return []string{
		"/", "/?by=state&fill=framework&size=mem", "/?by=" + query, "/agents", "/agents?q=" + query, "/agents/" + path, "/frameworks", "/frameworks/" + path,
		"/tasks", "/tasks?all=1&q=" + query, "/tasks/" + path + "/" + path, "/search?q=" + query, "/help",
		"/roles", "/usage", "/usage?by=framework,job&span=all", "/shares", "/shares?fill=framework&size=mem", "/offers", "/masters", "/jobs", "/jobs/" + path, "/why", "/why?q=" + query, "/access", "/history", "/history?all=1&q=" + query,
		"/do/kill?framework=" + query + "&task=" + query, "/do/exec?framework=" + query + "&task=" + query + "&command=" + query, "/do/run-job?text=%7B%7D", "/do/update-job?text=%7B%7D&job=" + query, "/do/scale-job?count=3&job=" + query, "/do/drain?agent=" + query, "/do/deactivate?agent=" + query, "/do/reactivate?agent=" + query,
		"/do/maintenance?agent=" + query, "/do/role?role=" + query, "/do/teardown?framework=" + query, "/do/stop-job?job=" + query, "/do/rollback-job?job=" + query, "/do/run-job-now?job=" + query,
	}
}

// newMessage makes an empty message of a type.
func newMessage(of protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		panic(err)
	}
	return kind.New().Interface()
}
