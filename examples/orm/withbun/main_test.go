package main

import (
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLateWithdrawalIsRefused(t *testing.T) {
	const story = `token 9: <nil>
token 7: guard: stale token 7 for "account/alice": 9 has been seen, so a newer holder is at work; stop writing
balance: 90
`
	var out strings.Builder
	if err := run(t.Context(), &out, filepath.Join(t.TempDir(), "bank.db")); err != nil {
		t.Error(err)
	}
	if out.String() != story {
		t.Errorf("got\n%swant\n%s", &out, story)
	}
}
