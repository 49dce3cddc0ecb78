package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// network is what lies between the processes: a proxy before each port of each master.
// A cut holds back every byte, both ways, of the connections of a process, whoever
// opened them; healed, they go on, as TCP does. A master that is down refuses.
type network struct {
	pids func() map[int]string // who is who

	mu   sync.Mutex
	heal *sync.Cond
	cut  map[string]bool // guarded by mu
	over bool            // guarded by mu
}

func newNetwork(pids func() map[int]string) *network {
	n := &network{pids: pids, cut: map[string]bool{}}
	n.heal = sync.NewCond(&n.mu)
	return n
}

func (n *network) setCut(name string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[name] = cut
	n.heal.Broadcast()
}

func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	n.heal.Broadcast()
}

// pass waits until nothing is cut between two processes.
func (n *network) pass(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.over && (n.cut[from] || n.cut[to]) {
		n.heal.Wait()
	}
}

// proxy stands before one port of a master.
type proxy struct {
	network     *network
	to          string // name of the master
	front, back string // addresses
	mu          sync.Mutex
	listener    net.Listener // nil: down; guarded by mu
}

// up accepts connections; down refuses them. What is open lives on until its ends do.
func (p *proxy) up() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.front)
	if err != nil {
		return err
	}
	p.listener = listener
	go p.serve(listener)
	return nil
}

func (p *proxy) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close() // it accepts nothing any more, whatever it says
		p.listener = nil
	}
}

func (p *proxy) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go p.join(conn)
	}
}

// join copies both ways until both have ended.
func (p *proxy) join(client net.Conn) {
	from, err := p.network.ownerOf(client)
	if err != nil { // let through, it would not be cut with its process
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", p.back)
	if err != nil {
		_ = client.Close() // what else
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client, from) })
	both.Go(func() { p.copy(client, server, from) })
	both.Wait()
}

func (p *proxy) copy(into, out net.Conn, from string) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := out.Read(buffer)
		p.network.pass(from, p.to)
		if n > 0 {
			if _, werr := into.Write(buffer[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_, _ = into.Close(), out.Close() // the other direction ends too
			return
		}
	}
}

// ownerOf finds the process at the other end of a connection; "" is nobody we know, and everybody where no /proc tells.
func (n *network) ownerOf(conn net.Conn) (string, error) {
	inode, err := inodeOf(conn.RemoteAddr().(*net.TCPAddr), conn.LocalAddr().(*net.TCPAddr))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	want := "socket:[" + inode + "]"
	for pid, name := range n.pids() {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is good
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && target == want {
				return name, nil
			}
		}
	}
	return "", nil
}

// inodeOf finds the socket of a connection between two ports of this machine. A port alone does not tell: another connection
// from it, to somebody else, may not be forgotten yet.
func inodeOf(near, far *net.TCPAddr) (string, error) {
	file, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	defer file.Close()
	if near.IP.To4() == nil || far.IP.To4() == nil {
		return "", errors.New("not IPv4")
	}
	from, to := kernelAddress(near), kernelAddress(far)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 9 && fields[1] == from && fields[2] == to {
			return fields[9], nil
		}
	}
	return "", io.EOF
}

// kernelAddress is how the kernel writes an address of IPv4 and a port.
func kernelAddress(a *net.TCPAddr) string {
	return fmt.Sprintf("%08X:%04X", binary.LittleEndian.Uint32(a.IP.To4()), a.Port)
}
