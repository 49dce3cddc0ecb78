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

// network is what lies between the processes: a proxy for each port of each master. A cut holds back every byte, in
// both directions, of all connections of a process. After the cut the connections go on, as TCP connections do. The
// proxy of a master that is down refuses connections.
type network struct {
	pids func() map[int]string // the name of each process

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

// pass waits until neither of two processes is cut off.
func (n *network) pass(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.over && (n.cut[from] || n.cut[to]) {
		n.heal.Wait()
	}
}

// proxy is the proxy of one port of a master.
type proxy struct {
	network     *network
	to          string // the name of the master
	front, back string // addresses
	mu          sync.Mutex
	listener    net.Listener // nil: the proxy refuses connections; guarded by mu
}

// up accepts connections; down refuses them. Open connections stay until their ends close them.
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
		_ = p.listener.Close() // it accepts nothing any more, whatever the error is
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
	if err != nil { // if it were let through, it would not be cut off with its process
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", p.back)
	if err != nil {
		_ = client.Close() // nothing else can be done
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

// ownerOf finds the process at the other end of a connection; "" is one that we do not know, or any without /proc.
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
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is valid
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && target == want {
				return name, nil
			}
		}
	}
	return "", nil
}

// inodeOf finds the socket of a connection between two ports of this machine. One port is not enough: an earlier
// connection from it, to another port, may still be listed.
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

// kernelAddress returns an IPv4 address and a port as the kernel writes them.
func kernelAddress(a *net.TCPAddr) string {
	return fmt.Sprintf("%08X:%04X", binary.LittleEndian.Uint32(a.IP.To4()), a.Port)
}
