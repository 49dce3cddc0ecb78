package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
)

// answerError says that a server has answered with something else than the file.
type answerError struct {
	code   int
	status string
}

func (e *answerError) Error() string { return "the server answered " + e.status }

// awayCodes are the answers that say that the same question may be answered later.
var awayCodes = map[int]bool{
	http.StatusRequestTimeout: true, http.StatusTooManyRequests: true, http.StatusInternalServerError: true,
	http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
}

// awayErrors are the errors of connections that another try may not meet.
var awayErrors = []error{
	syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETUNREACH, syscall.ENETDOWN,
	syscall.EPIPE, syscall.ETIMEDOUT, context.DeadlineExceeded, errBroken,
}

// errBroken says that a server has ended the connection before its answer was whole.
var errBroken = errors.New("the connection broke before all of it was there")

// answerBody is the body of an answer. Its end before it is whole is errBroken.
type answerBody struct{ io.ReadCloser }

func (b answerBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	return n, brokenOr(err)
}

func brokenOr(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errBroken
	}
	return err
}

// IsAway reports whether a fetch has failed because whoever has the file can't be reached, does not answer in time, or
// says that it can't answer now. The list is closed: anything else would fail again.
func IsAway(err error) bool {
	var answer *answerError
	if errors.As(err, &answer) {
		return awayCodes[answer.code]
	}
	var name *net.DNSError
	if errors.As(err, &name) {
		return !name.IsNotFound
	}
	var wait net.Error
	if errors.As(err, &wait) && wait.Timeout() {
		return true
	}
	return slices.ContainsFunc(awayErrors, func(away error) bool { return errors.Is(err, away) })
}
