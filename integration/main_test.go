//go:build unix

// Package integration has the tests over real servers, clusters and faults.
package integration

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/internal/child"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{"writer": writer, "counter": counter, "hoarder": hoarder})
	goleak.VerifyTestMain(m)
}
