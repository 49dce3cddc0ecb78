package logging

import (
	"bytes"
	"net/http"
	"strconv"
)

// keptBytesMax is how many bytes of the newest lines a writer keeps for whoever asks. Older lines are wherever the log
// is written to.
const keptBytesMax = 512 << 10

// keep keeps a line for Kept. Callers hold mu.
func (w *Writer) keep(line []byte) {
	w.kept = append(w.kept, line...)
	if over := len(w.kept) - keptBytesMax; over > keptBytesMax/4 { // not at every line, because it moves what is kept
		if end := bytes.IndexByte(w.kept[over:], '\n'); end >= 0 {
			over += end + 1
		}
		w.before += int64(over)
		w.kept = append(w.kept[:0], w.kept[over:]...)
	}
}

// Kept returns the newest lines, and how many bytes the log had before them since the process began. A nil writer keeps
// none.
func (w *Writer) Kept() (lines []byte, before int64) {
	if w == nil {
		return nil, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.kept), w.before
}

// BeforeHeader says in an answer how many bytes the log had before what the answer shows.
const BeforeHeader = "Tender-Log-Before"

// Show answers with the newest lines of the log; with lines=N with at most so many.
func (w *Writer) Show(to http.ResponseWriter, r *http.Request) {
	kept, before := w.Kept()
	if n, err := strconv.Atoi(r.URL.Query().Get("lines")); err == nil && n >= 0 {
		start := len(kept)
		for ; n > 0 && start > 0; n-- {
			start = bytes.LastIndexByte(kept[:start-1], '\n') + 1
		}
		before += int64(start)
		kept = kept[start:]
	}
	to.Header().Set("Content-Type", "text/plain; charset=utf-8")
	to.Header().Set(BeforeHeader, strconv.FormatInt(before, 10))
	_, _ = to.Write(kept) // an error means that nobody waits for the answer
}
