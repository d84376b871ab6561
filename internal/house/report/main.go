// Command report turns the stream of go test -json into what a person wants to read: the closing line of every package,
// all output of what failed, and at the end which tests were skipped and why.
//
// With FENCEDLOCK_REQUIRE_SERVERS=1 a skipped test is a failure: where all servers are, nothing has a reason to be skipped,
// but for what a guard's store declares to lack.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

type event struct {
	Action      string
	Package     string
	ImportPath  string // of build output
	Test        string
	Output      string
	FailedBuild string
}

func main() {
	if err := run(os.Stdin, os.Stdout, os.Getenv("FENCEDLOCK_REQUIRE_SERVERS") == "1"); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(r io.Reader, w io.Writer, strict bool) error {
	type key struct{ pkg, test string }
	output := make(map[key]*strings.Builder)
	var skipped []string
	unexcused := 0
	passed, failed := 0, 0
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line == "" {
			break
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			io.WriteString(w, line) // not from go test -json: an error of the go command
			continue
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output":
			if e.Test == "" {
				if !frame(e.Output) {
					io.WriteString(w, e.Output)
				}
				continue
			}
			if output[k] == nil {
				output[k] = new(strings.Builder)
			}
			output[k].WriteString(e.Output)
		case "build-output":
			io.WriteString(w, e.Output)
		case "pass":
			if e.Test != "" {
				passed++
			}
			delete(output, k)
		case "fail":
			failed++
			if b := output[k]; b != nil {
				io.WriteString(w, b.String())
			}
			delete(output, k)
		case "skip":
			if e.Test != "" {
				why := reason(output[k])
				skipped = append(skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, why))
				if !strings.Contains(why, excuse) {
					unexcused++
				}
			}
			delete(output, k)
		}
	}
	// A test that was running when its package died has no end of its own.
	for k, b := range output {
		fmt.Fprintf(w, "unfinished: %s %s\n%s", k.pkg, k.test, b)
	}
	fmt.Fprintf(w, "report: %d tests passed, %d skipped\n", passed, len(skipped))
	for _, s := range skipped {
		fmt.Fprintln(w, "skipped:", s)
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d tests and packages failed", failed)
	case passed == 0:
		return errors.New("no test passed")
	case strict && unexcused > 0:
		return fmt.Errorf("%d tests were skipped although all servers are here", unexcused)
	}
	return nil
}

// excuse is how guardtest says that a store declares, with a reason, that it cannot do something, which no server would
// change.
const excuse = "the store has no "

// frame tells the lines that say no more than the closing line does.
func frame(s string) bool { return s == "PASS\n" || s == "FAIL\n" || strings.HasPrefix(s, "=== ") }

// reason is what the test said to Skip.
func reason(b *strings.Builder) string {
	if b == nil {
		return "no reason given"
	}
	var said []string
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}
