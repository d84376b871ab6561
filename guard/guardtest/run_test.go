package guardtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunPassesACorrectGuard(t *testing.T) {
	Run(t, func(*testing.T) Store { return newMemory("") })
}

// Gate guards in memory; what it guards here is a map.
func TestRunPassesGate(t *testing.T) {
	Run(t, func(*testing.T) Store {
		var (
			gate guard.Gate
			data sync.Map
		)
		do := func(ctx context.Context, resource string, tok guard.Token, write func()) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return gate.Do(resource, tok, func() error { write(); return nil })
		}
		return Store{
			Sealer: &gate,
			Write: func(ctx context.Context, resource string, tok guard.Token, value string) error {
				return do(ctx, resource, tok, func() { data.Store(resource, value) })
			},
			Read: func(_ context.Context, resource string) (string, error) {
				v, _ := data.LoadOrStore(resource, "")
				return v.(string), nil
			},
			Delete: func(ctx context.Context, resource string, tok guard.Token) error {
				return do(ctx, resource, tok, func() { data.Delete(resource) })
			},
			Without: map[Capability]string{Restart: "it lives in the process", LoseReply: "a call has no reply to lose", LoseRequest: "a call has no request to lose"},
		}
	})
}

// faults are those of memory, each with the property that it breaks.
var faults = map[string]string{
	"accepts lower tokens":                "Order",
	"refuses equal tokens":                "Order",
	"hides the mark":                      "Order",
	"reports another mark":                "Order",
	"writes what it refuses":              "Order",
	"loses writes":                        "Order",
	"fails where nothing was marked":      "Order",
	"takes zero for permission":           "BadTokens",
	"compares floats":                     "WideTokens",
	"compares texts":                      "WideTokens",
	"takes any name":                      "BadNames",
	"keeps 100 marks":                     "ManyResources",
	"folds case":                          "Names",
	"trims blanks":                        "Names",
	"cuts names":                          "Names",
	"refuses long names":                  "Names",
	"loses empty values":                  "Values",
	"cuts values":                         "Values",
	"trims values":                        "Values",
	"wraps at 32 bits":                    "WideTokens",
	"says stale and unknown":              "Order",
	"does not seal":                       "Seal",
	"empties what it seals":               "Seal",
	"ignores the context":                 "Cancelled",
	"checks before the step at first use": "FirstUse",
	"checks before the step":              "ConcurrentWriters",
	"deletes the mark":                    "StaleAfterDelete",
	"deletes after marking":               "LateDelete",
	"checks before it deletes":            "LateDelete",
	"forgets marks in a restart":          "Restart",
	"calls a lost reply a failure":        "LostReply",
	"calls a lost reply stale":            "LostReply",
	"calls a broken connection success":   "LostRequest",
	"calls a lost request stale":          "LostRequest",
	"marks what never arrived":            "LostRequest",
}

// Each broken guard is found, and by the property that it breaks.
func TestSuiteFindsBrokenGuards(t *testing.T) {
	for fault, property := range faults {
		t.Run(fault, func(t *testing.T) {
			found := false
			for _, c := range checks {
				err := c.run(t.Context(), newMemory(fault))
				if c.name == property && err == nil {
					t.Errorf("%s does not find it", c.name)
				}
				found = found || err != nil
			}
			if !found {
				t.Error("nothing finds it")
			}
		})
	}
}

// A write that lands between the new holder's seal and its read is found, too; with luck only, hence the retries.
func TestSealBeforeReadFindsALateWrite(t *testing.T) {
	for range 100 {
		s := newMemory("")
		m := s.Sealer.(*memory)
		s.Write = func(ctx context.Context, resource string, tok guard.Token, value string) error {
			if value != "b" {
				return m.write(ctx, resource, tok, value)
			}
			if err := m.write(ctx, resource, tok, "a"); err != nil { // checked here,
				return err
			}
			for highest := guard.Token(0); highest < 6; { // written when the seal is through
				var err error
				if highest, err = m.Highest(ctx, resource); err != nil {
					return err
				}
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.data[resource] = value
			return nil
		}
		if err := checkSealBeforeRead(t.Context(), s); err != nil {
			return
		}
	}
	t.Error("not found in 100 runs")
}

// Each property of the suite is broken by somebody above, so that none is there for show.
func TestEveryPropertyIsBrokenByAFault(t *testing.T) {
	broken := map[string]bool{"SealBeforeRead": true} // by a test of its own, since that takes luck
	for _, property := range faults {
		broken[property] = true
	}
	for _, c := range checks {
		if !broken[c.name] {
			t.Errorf("no fault breaks %s", c.name)
		}
	}
}

func TestHistoryFindsWhatOverlapCannotExplain(t *testing.T) {
	stale := &guard.StaleError{Resource: "r", Token: 1, Highest: 9}
	for _, c := range []struct {
		name string
		ops  []op
		want string // "": nothing wrong
	}{
		{"in order", []op{{kind: write, tok: 1, value: "1", start: 1, end: 2}, {kind: write, tok: 2, value: "2", start: 3, end: 4}}, ""},
		{"overlapping, either way", []op{{kind: write, tok: 2, value: "2", start: 1, end: 4}, {kind: write, tok: 1, value: "1", start: 2, end: 5}}, ""},
		{"lower one after", []op{{kind: write, tok: 2, value: "2", start: 1, end: 2}, {kind: write, tok: 1, value: "1", start: 3, end: 4}}, "was accepted after"},
		{"content goes back", []op{{kind: write, tok: 1, value: "1", start: 1, end: 9}, {kind: write, tok: 2, value: "2", start: 2, end: 3}, {kind: read, tok: 1, value: "1", start: 4, end: 5}}, "went back"},
		{"mark from nowhere", []op{{kind: write, tok: 1, value: "1", start: 1, end: 2, err: stale}, {kind: write, tok: 2, value: "2", start: 3, end: 4}}, "was refused by a mark of 9"},
		{"refused content", []op{{kind: write, tok: 9, value: "9", start: 1, end: 2}, {kind: write, tok: 1, value: "1", start: 1, end: 4, err: stale}, {kind: read, tok: 9, value: "1", start: 5, end: 6}}, "refused or never written"},
		{"mark goes back", []op{{kind: write, tok: 2, value: "2", start: 1, end: 2}, {kind: mark, tok: 1, start: 3, end: 4}}, "Highest = 1"},
		{"other errors", []op{{kind: write, tok: 2, value: "2", start: 1, end: 2}, {kind: write, tok: 3, value: "3", start: 3, end: 4, err: errors.New("boom")}}, "boom"},
		{"unknown outcomes", []op{{kind: write, tok: 2, value: "2", start: 1, end: 2, err: guard.ErrUnknown}, {kind: write, tok: 1, value: "1", start: 3, end: 4}}, ""},
	} {
		h := history{ops: c.ops}
		f := h.verify()
		if err := f.err(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}

func TestStoreMustExcuseWhatItLacks(t *testing.T) {
	for name, s := range map[string]Store{
		"empty":              {},
		"lacks Restart":      func() Store { s := newMemory(""); s.Restart = nil; return s }(),
		"has it and excuses": func() Store { s := newMemory(""); s.Without = map[Capability]string{Restart: "no"}; return s }(),
		"no reason": func() Store {
			s := newMemory("")
			s.Restart, s.Without = nil, map[Capability]string{Restart: ""}
			return s
		}(),
		"unknown capability": func() Store { s := newMemory(""); s.Without = map[Capability]string{"Fly": "no"}; return s }(),
	} {
		if err := s.complete(); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want an error of one line", name, err)
		}
	}
}

// Run itself, and not only its checks, fails with a broken guard, and once with an incomplete store: the test runs
// itself as a child to see that.
func TestRunFailsABrokenGuard(t *testing.T) {
	if fault := os.Getenv("GUARDTEST_FAULT"); fault != "" {
		Run(t, func(*testing.T) Store {
			s := newMemory(fault)
			if fault == "has no Write" {
				s.Write = nil
			}
			return s
		})
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[string]struct {
		name  string
		tests int // that fail, the parent included; 0: any number
	}{"accepts lower tokens": {"Order", 0}, "has no Write": {"Store", 2}} {
		c := exec.Command(exe, "-test.run=^TestRunFailsABrokenGuard$")
		c.Env = append(os.Environ(), "GUARDTEST_FAULT="+fault)
		out, err := c.CombinedOutput()
		failed := strings.Count(string(out), "--- FAIL")
		if err == nil || !strings.Contains(string(out), "TestRunFailsABrokenGuard/"+want.name) || want.tests != 0 && failed != want.tests {
			t.Errorf("%s: the child ended with %v and %d failures:\n%s", fault, err, failed, out)
		}
	}
}

func TestFirstUseSaysWhatHappened(t *testing.T) {
	err := checkFirstUse(t.Context(), newMemory("checks before the step at first use"))
	if err == nil || !strings.Contains(err.Error(), "two writers met on an unmarked resource, and the lower token won") {
		t.Errorf("%v", err)
	}
}
