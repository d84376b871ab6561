//go:build unix

package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/internal/child"
)

func TestMain(m *testing.M) {
	child.Main(roles)
	goleak.VerifyTestMain(m)
}
