// Package core is a scheduler's half of the session with the masters. It decides which master to try next, what a new
// session is told, which offers are open, what an answer sends, which statuses the scheduler has yet to handle and
// which are acknowledged, what is wanted, and which calls of the user's code are due. The shell around it, package
// framework, owns the stream, the clock, randomness and the goroutine that calls the user's code.
//
// It is a value without clock, goroutine, lock, I/O, randomness or closure: time and random numbers come with each
// event, a call of the user's code is an effect, and a caller that waits for an answer is a number. The same events
// give the same effects, byte for byte. A clone behaves alike and leaves its original as it was.
package core
