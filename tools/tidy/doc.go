// Package tidy checks the sources: its tests read the sources of Tender and refuse what docs/architecture.md and
// STYLE.md rule out: an import that points up, a clock in a pure package, a loop whose order shows, a test that sleeps.
// Exceptions are data in tables_test.go. Every refusal names the place, what is wrong there, and what would be right;
// every rule is itself tested by sources that it must refuse and sources that it must leave alone.
//
// It holds no code that ships, runs none of the code it reads, and judges nothing that the compiler, go vet or
// golangci-lint judge already.
package tidy
