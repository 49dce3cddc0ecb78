package gateway

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// notSubscribed is said of a framework that has not subscribed at this gateway.
	notSubscribed = "Framework is not subscribed"
	// passedHeader marks a call that another gateway has passed on, so that no two pass it to and fro.
	passedHeader = "Tender-Gateway"
	// passTimeout bounds how long a peer may take for a call: it waits for a leader itself.
	passTimeout = storeTimeout + 5*time.Second
	// answerBytesMax bounds the answer of a peer, which is at most a sentence.
	answerBytesMax = 64 << 10
)

// passOn has a call answered by the gateway at which its framework has subscribed. It reports whether one has.
func (g *Gateway) passOn(w http.ResponseWriter, r *http.Request, body []byte) bool {
	if r.Header.Get(passedHeader) != "" {
		return false
	}
	for _, peer := range g.config.Peers {
		if peer == g.config.Address {
			continue
		}
		code, text, err := g.ask(r, peer, body)
		if err != nil {
			g.log.Warn("a gateway can't be asked", "peer", peer, "error", err)
			continue
		}
		if code == http.StatusForbidden && strings.TrimSpace(string(text)) == notSubscribed {
			continue
		}
		w.WriteHeader(code)
		_, _ = w.Write(text) // a client that has gone needs no answer
		return true
	}
	return false
}

func (g *Gateway) ask(r *http.Request, peer string, body []byte) (code int, text []byte, err error) {
	scheme := "http://"
	if g.config.DialTLS != nil {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(r.Context(), r.Method, scheme+peer+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for _, name := range []string{"Content-Type", "Accept", "Authorization", streamHeader} {
		request.Header[name] = r.Header[http.CanonicalHeaderKey(name)]
	}
	request.Header.Set(passedHeader, g.config.Address)
	reply, err := g.peers.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	text, err = io.ReadAll(io.LimitReader(reply.Body, answerBytesMax))
	return reply.StatusCode, text, err
}
