package api_test

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

func TestAddressesAreShownWithoutTheirSecrets(t *testing.T) {
	for source, want := range map[string]string{
		"":                                  "",
		"/opt/app.tar.gz":                   "/opt/app.tar.gz",
		"file:///opt/a?b":                   "file:///opt/a?xxxxx",
		"https://host/app.tar.gz":           "https://host/app.tar.gz",
		"https://host":                      "https://host",
		"https://ann:secret@host:8443/a@b":  "https://xxxxx@host:8443/a@b",
		"https://a@b:secret@host/x":         "https://xxxxx@host/x",
		"https://token@host?x=1":            "https://xxxxx@host?x=xxxxx",
		"https://h/a?sig=s3cr=t&b&c=#d":     "https://h/a?sig=xxxxx&xxxxx&c=xxxxx#xxxxx",
		"https://h/a?next=https://u:p@i/j":  "https://h/a?next=xxxxx",
		"https://h/a?":                      "https://h/a?",
		"s3://KEY:SECRET@bucket/dir/object": "s3://xxxxx@bucket/dir/object",
	} {
		if got := (api.URI{Source: source}).Redacted(); got != want {
			t.Errorf("%s is shown as %s, want %s", source, got, want)
		}
	}
}
