package calls

import "golang.org/x/sys/unix"

// machine is the number by which a filter knows this kind of machine.
const machine = unix.AUDIT_ARCH_X86_64

// numbersEnd is the first number of the system calls of x32, for programs with pointers of 32 bits.
const numbersEnd = 0x40000000

// deniedHere are denied calls that not all kinds of machine have.
var deniedHere = []call{
	{"iopl", unix.SYS_IOPL},
	{"ioperm", unix.SYS_IOPERM},
	{"uselib", unix.SYS_USELIB},
	{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD},
}
