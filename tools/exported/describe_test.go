package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

const source = `package demo

import "time"

const (
	_ Mood = iota
	Good
	Bad
)

const (
	Wait  = 5 * time.Second
	Most  = 1 << 20
	least = 1
)

var Broken error

type Mood uint8

type Config struct {
	A, B  int
	Hook  func(n int, err error) (ok bool)
	small bool
	Mood
}

type Doer interface {
	Do(ctx Context, names ...string) (n int, err error)
	hidden()
}

type List[T any] []T

func (l *List[T]) Add(one T) {}
func (c *Config) String() string { return "" }
func (c config) String() string { return "" }

func Map[K comparable](in map[K]int, f func(K)) {}
func New(a, b int) (*Config, error) { return nil, nil }
func quiet() {}
`

const want = `const Bad Mood = 2
const Good Mood = 1
const Most = 1048576
const Wait = 5 * time.Second
field Config.A int
field Config.B int
field Config.Hook func(int, error) bool
func Map[K comparable](map[K]int, func(K))
func New(int, int) (*Config, error)
method (*Config) String() string
method (*List[T]) Add(T)
method Doer.Do(Context, ...string) (int, error)
type Config embeds Mood
type Config has hidden fields
type Config struct
type Doer has hidden methods
type Doer interface
type List[T any] []T
type Mood uint8
var Broken error`

func TestDescribe(t *testing.T) {
	root := fstest.MapFS{
		"demo/demo.go":      {Data: []byte(source)},
		"demo/demo_test.go": {Data: []byte("package demo\n\nfunc Tested() {}\n")},
	}
	lines, err := describe(root, "demo")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPackages(t *testing.T) {
	file := &fstest.MapFile{Data: []byte("package x\n")}
	root := fstest.MapFS{
		"api/a.go": file, "api/v1/a.go": file, "allocator/a.go": file, "allocator/allocatortest/a.go": file,
		"framework/a.go": file, "framework/pack/a.go": file, "framework/testdata/a.go": file, "framework/only/a_test.go": file, "tender/a.go": file,
	}
	folders, err := packages(root, []string{"api", "allocator", "allocator/allocatortest", "framework/...", "tender"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(folders, " "); got != "allocator allocator/allocatortest api framework framework/pack tender" {
		t.Errorf("got %s", got)
	}
}
