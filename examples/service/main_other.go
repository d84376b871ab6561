//go:build !unix

// Service shows how a token travels over HTTP, on systems that can stop a process and continue it.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "service: this needs Linux, macOS or another Unix, since it stops a process with SIGSTOP, which this system does not have")
	os.Exit(1)
}
