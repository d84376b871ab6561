package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// memory is what a process has, in bytes, after a collection of garbage.
type memory struct {
	Heap       int64 // objects that are reachable
	Stacks     int64 // pages of stacks, which the runtime gives back only when no stack is left on them
	RSS        int64 // what the kernel counts; 0 where it does not tell
	Goroutines int
}

// measure collects garbage until pools are empty, which takes two rounds, and stacks have shrunk, by half in each.
func measure() memory {
	for range 6 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{Heap: int64(m.HeapAlloc), Stacks: int64(m.StackInuse), RSS: rss(), Goroutines: runtime.NumGoroutine()}
}

func rss() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	var kilobytes int64
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}
