//go:build unix

package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sync"
)

const roleVariable = "FENCEDLOCK_TEST_CHILD"

// Role is what a child does. The process ends with it: with status 0 if it returns nil, else with the error on stderr
// and status 1.
type Role func(*Self) error

// Self is the child's side of the conversation. Safe for concurrent use.
type Self struct {
	Args []string // as given to Start

	mu       sync.Mutex // guards writing
	commands chan string
}

// Main runs a role and exits if this process is a child; else it returns at once. It is the first line of TestMain:
//
//	func TestMain(m *testing.M) {
//		child.Main(map[string]child.Role{"holder": holder})
//		goleak.VerifyTestMain(m)
//	}
func Main(roles map[string]Role) {
	name, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	os.Unsetenv(roleVariable)
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "child: no role %q\n", name)
		os.Exit(1)
	}
	s := &Self{Args: os.Args[1:], commands: make(chan string)}
	go s.listen()
	if err := role(s); err != nil {
		fmt.Fprintf(os.Stderr, "child: %s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// listen ends the process when the parent has gone, since nobody would ever stop it.
func (s *Self) listen() {
	r := bufio.NewReader(os.Stdin)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			if err != io.EOF {
				fmt.Fprintln(os.Stderr, "child: stdin:", err)
			}
			os.Exit(2)
		}
		s.commands <- line[:len(line)-1]
	}
}

// Say tells the parent one line.
func (s *Self) Say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// Command waits for the parent's next line.
func (s *Self) Command() string { return <-s.commands }

// Commands is the same as a channel, to select on.
func (s *Self) Commands() <-chan string { return s.commands }
