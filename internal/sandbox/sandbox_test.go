package sandbox_test

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/sandbox"
)

// agent serves files as an agent does.
func agent(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	switch r.URL.Path {
	case "/v1/files/f1/t1/whole":
		w.Write([]byte("0123456789"))
	case "/v1/logs/f1/t1/stdout":
		w.Write([]byte("0123456789"[len(r.FormValue("offset"))*5:] + r.FormValue("follow")))
	case "/v1/files/f1/t1/broken", "/v1/logs/f1/t1/stderr":
		w.Write([]byte("01234"))
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		panic(http.ErrAbortHandler)
	case "/v1/files/f1/t1/parts":
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"items":[{"name":"a"},{"name":"b"}]}`))
	case "/v1/files/f1/t1/ill":
		http.Error(w, "the disk is ill", http.StatusInternalServerError)
	case "/v1/files/f1/t1/ranges":
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("0123456789"))
	case "/v1/files/f1/t1/empty":
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(""))
	case "/v1/files/f1/t1/trimmed":
		http.Error(w, "agent.files: trimmed: invalid: what is kept of it begins at 65536", http.StatusBadRequest)
	case "/v1/files/f1/t1/short":
		w.Header().Set("Content-Range", "bytes 0-8/10")
		w.Header().Set("Content-Length", "9")
		w.WriteHeader(http.StatusPartialContent)
		w.Write([]byte("0123"))
	default:
		http.Error(w, "no such file", http.StatusNotFound)
	}
}

var errFull = errors.New("no space is left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestCopy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(agent))
	defer server.Close()
	file := sandbox.File{Task: api.TaskRef{Framework: "f1", Task: "t1"}, Address: strings.TrimPrefix(server.URL, "http://")}
	for _, c := range []struct {
		path string
		most int64
		kind api.Kind
		want string
	}{
		{path: "whole", want: "0123456789"},
		{path: "/whole", most: 10, want: "0123456789"},
		{path: "../../../whole", want: "0123456789"},
		{path: "whole", most: 9, kind: api.Limit, want: "more than 9 bytes"},
		{path: "broken", kind: api.Unavailable, want: "broke off after 5 bytes"},
		{path: "parts", kind: api.Invalid, want: "it has a, b"},
		{path: "other", kind: api.NotFound, want: "no such file"},
		{path: "ill", kind: api.Unavailable, want: "the disk is ill"},
	} {
		var got bytes.Buffer
		one := file
		one.Path, one.Most = c.path, c.most
		err := one.Copy(t.Context(), &got)
		switch {
		case c.kind == 0:
			if err != nil || got.String() != c.want {
				t.Errorf("%s: %q, %v", c.path, &got, err)
			}
		case !api.Is(err, c.kind) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %v and %q", c.path, err, c.kind, c.want)
		}
	}
	file.Path = "whole"
	if err := file.Copy(t.Context(), full{}); !errors.Is(err, errFull) {
		t.Errorf("a writer that fails: %v", err)
	}
	file.Address = ""
	if err := file.Copy(t.Context(), new(bytes.Buffer)); !api.Is(err, api.Unavailable) || !strings.Contains(err.Error(), "--http-port") {
		t.Errorf("an agent without HTTP: %v", err)
	}
}

// TestFollow begins at an offset, and tells how far it has come also when the agent breaks off.
func TestFollow(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(agent))
	defer server.Close()
	file := sandbox.File{Task: api.TaskRef{Framework: "f1", Task: "t1"}, Address: strings.TrimPrefix(server.URL, "http://"), Path: "stdout"}
	var text bytes.Buffer
	if n, err := file.Follow(t.Context(), 5, &text); n != 6 || err != nil || text.String() != "567891" {
		t.Errorf("from 5 on it has %d bytes, %q, %v", n, &text, err)
	}
	file.Path = "stderr"
	if n, err := file.Follow(t.Context(), 0, &text); n != 5 || !api.Is(err, api.Unavailable) {
		t.Errorf("broken off after %d bytes: %v", n, err)
	}
	if n, err := file.Follow(t.Context(), 0, full{}); n != 0 || !errors.Is(err, errFull) {
		t.Errorf("%d bytes are in a writer that is full: %v", n, err)
	}
}

// TestPart reads a range of a file, of which there may be less, or nothing any more.
func TestPart(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(agent))
	defer server.Close()
	file := sandbox.File{Task: api.TaskRef{Framework: "f1", Task: "t1"}, Address: strings.TrimPrefix(server.URL, "http://")}
	for _, c := range []struct {
		path         string
		offset, most int64
		size         int64
		want         string
		kind         api.Kind
	}{
		{"ranges", 0, 4, 10, "0123", 0},
		{"ranges", 8, 4, 10, "89", 0},
		{"ranges", 10, 4, 10, "", 0},
		{"ranges", math.MaxInt64, 4, 10, "", 0},
		{"ranges", -1, 4, 10, "", 0},
		{"ranges", 3, 0, 10, "", 0},
		{"empty", 0, 4, 0, "", 0},
		{"empty", -1, 4, 0, "", 0},
		{"trimmed", 0, 4, 0, "begins at 65536", api.Invalid},
		{"parts", 0, 4, 0, "a folder", api.Invalid},
		{"short", 0, 9, 0, "unexpected EOF", api.Unavailable},
		{"other", 0, 4, 0, "no such file", api.NotFound},
	} {
		file.Path = c.path
		data, size, err := file.Part(t.Context(), c.offset, c.most)
		switch {
		case c.kind == 0:
			if err != nil || string(data) != c.want || data == nil || size != c.size {
				t.Errorf("%s from %d: %q of %d, %v", c.path, c.offset, data, size, err)
			}
		case !api.Is(err, c.kind) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s from %d: %v, want %v and %q", c.path, c.offset, err, c.kind, c.want)
		}
	}
	file.Address = ""
	if _, _, err := file.Part(t.Context(), 0, 1); !api.Is(err, api.Unavailable) {
		t.Errorf("an agent without HTTP: %v", err)
	}
}
