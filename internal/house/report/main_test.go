package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	pass = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise of a passing test\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	skip = `{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: no server\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`
	fail = `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:9: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
`
	died = `{"Action":"output","Package":"p","Test":"TestD","Output":"last words\n"}
{"Action":"fail","Package":"p"}
`
	broken = `{"ImportPath":"p","Action":"build-output","Output":"p.go:1:1: expected 'package'\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`
)

func TestReport(t *testing.T) {
	for _, x := range []struct {
		name, in string
		strict   bool
		shows    []string
		hides    string
		err      string
	}{
		{"pass", pass, true, []string{"ok  \tp\t0.1s\n", "1 tests passed, 0 skipped"}, "noise", ""},
		{"skip", pass + skip, false, []string{"1 skipped", "skipped: p TestB: b_test.go:7: no server"}, "=== RUN", ""},
		{"skip where nothing may be", pass + skip, true, []string{"no server"}, "", "1 tests were skipped"},
		{"skip that a store excuses", pass + strings.ReplaceAll(skip, "no server", "the store has no Restart: why"), true,
			[]string{"1 skipped", "the store has no Restart: why"}, "", ""},
		{"fail", pass + fail, false, []string{"c_test.go:9: wrong"}, "noise", "1 tests and packages failed"},
		{"a test that never ended", pass + died, false, []string{"unfinished: p TestD\nlast words"}, "", "failed"},
		{"does not compile", broken, false, []string{"expected 'package'"}, "", "failed"},
		{"nothing ran", "", false, nil, "", "no test passed"},
		{"words of the go command", "go: no such module\n" + pass, false, []string{"go: no such module"}, "", ""},
	} {
		var out strings.Builder
		err := run(strings.NewReader(x.in), &out, x.strict)
		for _, s := range x.shows {
			if !strings.Contains(out.String(), s) {
				t.Errorf("%s: %q does not show %q", x.name, &out, s)
			}
		}
		if x.hides != "" && strings.Contains(out.String(), x.hides) {
			t.Errorf("%s: %q shows %q", x.name, &out, x.hides)
		}
		if (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%s: error %v, want %q", x.name, err, x.err)
		}
	}
}
