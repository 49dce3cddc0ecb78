package codec

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Refusal is an answer other than success: a status code and a sentence, in Mesos's words where it has any.
type Refusal struct {
	Code int
	Text string
}

func (r *Refusal) Error() string { return r.Text }

// Refuse returns a refusal with a formatted sentence.
func Refuse(code int, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// ReadBody reads the body of a request, which holds a call in the encoding that is returned, and at most so many bytes.
// Other requests are refused as Mesos does: the error is a [*Refusal].
func ReadBody(w http.ResponseWriter, r *http.Request, bytesMax int64) (Encoding, []byte, error) {
	if r.Header.Get("Content-Type") == "" {
		return 0, nil, Refuse(http.StatusBadRequest, "Expecting 'Content-Type' to be present")
	}
	encoding, ok := RequestEncoding(r.Header)
	if !ok {
		return 0, nil, Refuse(http.StatusUnsupportedMediaType, "Expecting 'Content-Type' of application/json or application/x-protobuf")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bytesMax))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return 0, nil, Refuse(http.StatusRequestEntityTooLarge, "a call may have %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return 0, nil, Refuse(http.StatusBadRequest, "Failed to read the body: %v", err)
	}
	return encoding, body, nil
}
