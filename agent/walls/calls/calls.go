// Package calls denies programs certain system calls with a seccomp filter: those that change the machine, that look
// into other processes, or that nearly no program needs and through which kernels were broken before. All other calls
// are allowed, and a denied call fails with EPERM, as for somebody without the right to it. A filter is never removed,
// and applies to all that the program starts.
//
// It is a second line of defence: a program without the right to a call can't make it anyway. The package never decides
// who has the filter.
package calls

// Ability is the filter's name in the list of an agent's abilities (see package walls).
const Ability = "seccomp"
