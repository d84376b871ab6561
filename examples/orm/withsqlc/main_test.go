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
	for name, w := range map[string]way{"Check": withdraw, "Do": withdrawByDo} {
		var out strings.Builder
		if err := run(t.Context(), &out, filepath.Join(t.TempDir(), "bank.db"), w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if out.String() != story {
			t.Errorf("%s:\n%swant\n%s", name, &out, story)
		}
	}
}
