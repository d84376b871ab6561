//go:build !unix

// Quickstart shows what a lock can do and what it cannot, on systems that can stop a process and continue it.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "quickstart: this needs Linux, macOS or another Unix, since it stops a process with SIGSTOP, which this system does not have")
	os.Exit(1)
}
