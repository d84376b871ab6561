package lease

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// The README tells users how long a session survives.
func TestTheTableOfMarginsIsThatOfTheCode(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^ *\| (\d+) s \| (\S+) s \| (\S+) s \| (\S+) s \|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) < 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		seconds, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		ttl := time.Duration(seconds) * time.Second
		// A renewal that is sent a third of the TTL after the last acknowledged one may be the first that fails.
		for i, want := range []time.Duration{margin(ttl), ttl - ttl/3 - margin(ttl), ttl - margin(ttl)} {
			got, err := strconv.ParseFloat(row[i+2], 64)
			if err != nil || max(want.Seconds()-got, got-want.Seconds()) > 0.051 {
				t.Errorf("TTL %v: the README says %s, the code %v", ttl, row[i+2], want)
			}
		}
	}
}
