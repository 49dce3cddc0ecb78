package adapter

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"

	"github.com/tenderhq/tender/internal/mesos/codec"
	"github.com/tenderhq/tender/internal/testing/transcript"
)

// TestStories plays the stories of testdata in both encodings of the old executor, which change nothing.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories in testdata: %v", err)
	}
	for _, file := range files {
		for name, encoding := range map[string]codec.Encoding{"json": codec.JSON, "protobuf": codec.Protobuf} {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, encoding)
					synctest.Wait()
					datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
						for line := range strings.SplitSeq(d.Input, "\n") {
							w.Play(t, transcript.Parse(line))
						}
						if said := w.Said(); said != "" {
							return said
						}
						return "nothing"
					})
				})
			})
		}
	}
}
