package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// line returns the change number i of a test, a second after the one before.
func line(i int) Line {
	return Line{At: began.Add(time.Duration(i) * time.Second), Who: "person ann", Call: "/tender.v1.OperatorService/SetRole", Result: "ok", Index: uint64(i)}
}

// indexes returns the indexes of what a query selects, the newest first.
func indexes(r *Recent, q Query) (all []uint64) {
	q.Limit, q.Bytes = max(q.Limit, 1), max(q.Bytes, 1)
	selected, _ := r.Select(q)
	for _, e := range selected {
		all = append(all, e.Index)
	}
	return all
}

// everything is a query without limits.
var everything = Query{Limit: recentMax + 1, Bytes: 2 * recentBytesMax}

// TestTheNewestLinesAreKept: a limited number of lines and of bytes is kept, and the answer says since when.
func TestTheNewestLinesAreKept(t *testing.T) {
	r := &Recent{}
	for i := range recentMax {
		l := line(i)
		r.Add(&l)
	}
	if n := len(indexes(r, everything)); n != recentMax || !r.Since().IsZero() {
		t.Errorf("%d lines are kept, since %v", n, r.Since())
	}
	l := line(recentMax)
	r.Add(&l)
	all := indexes(r, everything)
	if len(all) != recentMax || all[0] != recentMax || all[len(all)-1] != 1 || !r.Since().Equal(line(1).At) {
		t.Errorf("one more: %d lines are kept, from %d to %d, since %v", len(all), all[len(all)-1], all[0], r.Since())
	}
	long := []byte(`{"role":"` + strings.Repeat("x", onBytesMax-20) + `"}`)
	for i := range 2 * recentBytesMax / onBytesMax {
		l := line(i)
		l.On = long
		r.Add(&l)
		if r.bytes > recentBytesMax || len(r.entries) > recentMax {
			t.Fatalf("%d lines of %d bytes are kept", len(r.entries), r.bytes)
		}
	}
	sum := 0
	for _, e := range r.entries {
		sum += e.bytes
	}
	if sum != r.bytes || sum < recentBytesMax*9/10 || cap(r.entries) > 4*recentMax {
		t.Errorf("%d bytes are kept in room for %d lines, and %d are counted", sum, cap(r.entries), r.bytes)
	}
}

// TestAPageIsBounded: a page is limited in lines and in bytes. All pages together contain everything once, also while
// lines are added and dropped.
func TestAPageIsBounded(t *testing.T) {
	r := &Recent{}
	for i := range 10 {
		l := line(i)
		r.Add(&l)
	}
	var all []uint64
	q := Query{Limit: 3, Bytes: 1 << 20}
	for more := true; more; {
		var page []Entry
		if page, more = r.Select(q); len(page) == 0 || len(page) > 3 {
			t.Fatalf("a page has %d lines", len(page))
		}
		for _, e := range page {
			all = append(all, e.Index)
		}
		q.Before = page[len(page)-1].Number
		l := line(100) // newer than what the pages contain
		r.Add(&l)
	}
	if !slices.Equal(all, []uint64{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}) {
		t.Errorf("the pages together are %v", all)
	}
	one := r.entries[0].bytes
	if page, more := r.Select(Query{Limit: 100, Bytes: 2 * one}); len(page) != 2 || !more {
		t.Errorf("a page of two lines' bytes has %d", len(page))
	}
	if page, more := r.Select(Query{Limit: 100, Bytes: 1}); len(page) != 1 || !more {
		t.Errorf("a page of no line's bytes has %d", len(page))
	}
}

// request returns a line with what the call was asked.
func request(i int, who, call, on, result string) Line {
	l := line(i)
	l.Who, l.Call, l.Result = who, call, result
	l.SetOn([]byte(on))
	return l
}

func TestQueriesSelect(t *testing.T) {
	const service = "/tender.v1.OperatorService/"
	r := &Recent{}
	long := `{"agent_ids":["` + strings.Repeat("a", onBytesMax) + `"]}`
	for i, l := range []Line{
		request(0, "person ann", service+"MarkAgent", `{"agent_id":"a1","action":"DRAIN"}`, "ok"),
		request(1, "framework etl", service+"KillTask", `{"task":"f1/t1"}`, "ok"),
		request(2, "person ann by a browser", service+"Grant", `{"principal":"etl","grant":{"verb":"run","role":"eng"}}`, Denied),
		request(3, "person bob", service+"SetSecret", `{"name":"eng/db"}`, "ok"),
		request(4, "anybody", "/tender.v1.JobService/SubmitJob", `{"job":{"name":"web","role":"eng","task":{"command":{"role":"none"}}}}`, "ok"),
		request(5, "person annabel", service+"SetMaintenance", long, "ok"),
		request(6, "person bob", service+"GetExecTicket", `{"framework_id":"f2","task_id":"t1"}`, "not found"),
		request(7, "master m2", "/tender.v1.RaftService/RemovePeer", `{"id":"m3"}`, "ok"),
		request(8, "person bob", service+"RevokeToken", `{"id":"first"}`, "ok"),
		request(9, "person bob", service+"SetMaintenance", `{"agent_ids":["a1","a2"]}`, "ok"),
	} {
		if l.Index != uint64(i) {
			t.Fatalf("line %d is number %d", i, l.Index)
		}
		r.Add(&l)
	}
	on := func(text string) Query {
		object, err := ParseObject(text)
		if err != nil {
			t.Fatal(err)
		}
		return Query{On: object}
	}
	for _, c := range []struct {
		query Query
		want  []uint64
	}{
		{Query{}, []uint64{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}},
		{Query{Since: line(7).At}, []uint64{9, 8, 7}},
		{Query{Since: line(5).At, Until: line(7).At}, []uint64{6, 5}},
		{Query{Before: 3}, []uint64{1, 0}},
		{Query{By: "ann"}, []uint64{2, 0}},
		{Query{By: "person ann"}, []uint64{2, 0}},
		{Query{By: "etl"}, []uint64{1}},
		{Query{By: "anybody"}, []uint64{4}},
		{Query{By: "person"}, nil},
		{Query{Denied: true}, []uint64{2}},
		// A line whose request was too long may be about anything.
		{on("agent/a1"), []uint64{9, 5, 0}},
		{on("agent/a2"), []uint64{9, 5}},
		{on("principal/etl"), []uint64{5, 2}},
		{on("role/eng"), []uint64{5, 4, 2}},
		{on("role/none"), []uint64{5}},
		{on("secret/eng/db"), []uint64{5, 3}},
		{on("job/web"), []uint64{5, 4}},
		{on("task/t1"), []uint64{6, 5, 1}},
		{on("task/f1/t1"), []uint64{5, 1}},
		{on("framework/f2"), []uint64{6, 5}},
		{on("master/m3"), []uint64{7, 5}},
		{on("token/first"), []uint64{8, 5}},
		{Query{On: Object{"agent", "a1"}, By: "bob", Since: line(1).At}, []uint64{9}},
	} {
		c.query.Limit, c.query.Bytes = 100, 1<<20
		if got := indexes(r, c.query); !slices.Equal(got, c.want) {
			t.Errorf("%+v selects %v, want %v", c.query, got, c.want)
		}
	}
	for _, text := range []string{"a1", "agent/", "agents/a1", "/a1"} {
		if _, err := ParseObject(text); err == nil || !strings.Contains(err.Error(), "KIND/NAME") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// reopened opens the folder's log and reads it back.
func reopened(t *testing.T, dir string) (*Log, *Recent) {
	t.Helper()
	a, err := Open("", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	r, err := a.Recent(began)
	if err != nil {
		t.Fatal(err)
	}
	return a, r
}

func write(t *testing.T, a *Log, r *Recent, lines ...Line) {
	t.Helper()
	for _, l := range lines {
		r.Add(&l)
		if err := a.Write(l); err != nil {
			t.Fatal(err)
		}
	}
}

// TestARestartForgetsNothing: lines of the file and of renamed files are read back, and pages that were begun go on.
func TestARestartForgetsNothing(t *testing.T) {
	dir := t.TempDir()
	a, r := reopened(t, dir)
	write(t, a, r, line(0), line(1))
	a.bytes = bytesMax // as if the file were full
	write(t, a, r, line(2))
	before, _ := r.Select(everything)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a, r = reopened(t, dir)
	if got := indexes(r, everything); !slices.Equal(got, []uint64{2, 1, 0}) || !r.Since().IsZero() {
		t.Errorf("after a restart there are %v, since %v", got, r.Since())
	}
	write(t, a, r, line(3))
	q := everything
	q.Before = before[0].Number
	if got := indexes(r, q); !slices.Equal(got, []uint64{1, 0}) {
		t.Errorf("the page behind %d has %v", q.Before, got)
	}
	if got := indexes(r, everything); !slices.Equal(got, []uint64{3, 2, 1, 0}) {
		t.Errorf("then there are %v", got)
	}
}

// TestNoMoreIsReadBackThanIsKept: if a file has more, its newest lines are read, and the answer says since when.
func TestNoMoreIsReadBackThanIsKept(t *testing.T) {
	dir := t.TempDir()
	var text bytes.Buffer
	n, long := 0, []byte(`{"role":"`+strings.Repeat("x", 2000)+`"}`)
	for ; text.Len() < recentBytesMax+recentBytesMax/2; n++ {
		l := line(n)
		l.On = long
		line, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	if err := os.WriteFile(filepath.Join(dir, fileName), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, r := reopened(t, dir)
	all := indexes(r, everything)
	oldest := all[len(all)-1]
	if all[0] != uint64(n-1) || oldest == 0 || r.bytes > recentBytesMax || r.bytes < recentBytesMax*8/10 || !r.Since().Equal(line(int(oldest)).At) {
		t.Errorf("of %d lines those from %d to %d are read back, %d bytes, since %v", n, oldest, all[0], r.bytes, r.Since())
	}
}

// TestALogWithoutAFileBeginsNow: nothing can be read back, and opening does not wait.
func TestALogWithoutAFileBeginsNow(t *testing.T) {
	for _, setting := range []string{"off", "-", "/dev/null"} {
		a, err := Open(setting, "")
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Recent(began)
		if err != nil || !r.Since().Equal(began) {
			t.Errorf("%s: since %v, %v", setting, r.Since(), err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestATornLineIsLostAlone: if a process was killed while it wrote a line, only that line is lost, wherever it was cut.
// The same holds for anything else that is no line. Whatever is written next is read back.
func TestATornLineIsLostAlone(t *testing.T) {
	whole, err := json.Marshal(line(7))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		dir := t.TempDir()
		a, r := reopened(t, dir)
		write(t, a, r, line(0))
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fileName)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = slices.Concat(text, []byte("no JSON\n\nnull\n{}\n[1]\n"), whole[:cut])
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		a, r = reopened(t, dir)
		write(t, a, r, line(8))
		write(t, a, r, line(9))
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		_, again := reopened(t, dir)
		want := []uint64{9, 8, 0}
		if cut == len(whole) { // it lacks only its end
			want = []uint64{9, 8, 7, 0}
		}
		if got := indexes(again, everything); !slices.Equal(got, want) {
			t.Fatalf("torn behind %d bytes: there are %v, want %v", cut, got, want)
		}
	}
}

// TestKilledAmidALine: a real process is killed while it writes as fast as it can. All lines that it has reported are
// read back, and those that are written later.
func TestKilledAmidALine(t *testing.T) {
	if dir := os.Getenv("AUDIT_WRITER"); dir != "" {
		a, r := reopened(t, dir)
		for i := 0; ; i++ {
			write(t, a, r, line(i))
			fmt.Println(i)
		}
	}
	dir := t.TempDir()
	writer := exec.Command(os.Args[0], "-test.run", "^TestKilledAmidALine$")
	writer.Env = append(os.Environ(), "AUDIT_WRITER="+dir)
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	told := -1
	for told < 500 {
		if _, err := fmt.Fscanln(out, &told); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = writer.Wait() // it was killed
	a, r := reopened(t, dir)
	all := indexes(r, everything)
	if len(all) == 0 || all[0] < uint64(told) || uint64(len(all)) != all[0]+1 {
		t.Fatalf("it has told of %d, and %d lines are read back", told, len(all))
	}
	write(t, a, r, line(1_000_000))
	_, again := reopened(t, dir)
	if got := indexes(again, everything); got[0] != 1_000_000 || len(got) != len(all)+1 {
		t.Errorf("%d lines, the newest %d, after %d and one more", len(got), got[0], len(all))
	}
}

// FuzzLines: whatever is in the file, a line that is written after it is read back, and all lines that are read back
// can be written again.
func FuzzLines(f *testing.F) {
	for _, text := range []string{
		"", "\n", `{"at":"2026-01-02T03:04:05Z","who":"person ann","from":"","call":"c","on":{"role":"eng"},"result":"ok"}` + "\n",
		`{"at":"2026-01-02T03:04:05Z","result":"ok"`, `{"at":1}` + "\n", "null\n[]\n", "\xff{\x00}\n", `{"n":18446744073709551615,"at":"2026-01-02T03:04:05Z","result":"ok"}` + "\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), text, 0o600); err != nil {
			t.Fatal(err)
		}
		a, r := reopened(t, dir)
		before := len(r.entries)
		write(t, a, r, line(1))
		_, again := reopened(t, dir)
		if n := len(again.entries); n != before+1 || !again.entries[n-1].At.Equal(line(1).At) {
			t.Fatalf("%q: %d lines, and one more: %d", text, before, n)
		}
		var last uint64
		for i, e := range again.entries {
			if i > 0 && e.Number <= last {
				t.Fatalf("%q: number %d follows %d", text, e.Number, last)
			}
			last = e.Number
			if _, err := json.Marshal(e.Line); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
