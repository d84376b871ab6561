package check

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// plant is a story that breaks promises, and the checks that must say so.
type plant struct {
	story string
	play  func(*story)
	want  []string
}

// Each promise is broken in a history of its own, and the check that watches it says so. Some are broken for several checks
// at once; no other may complain.
func TestEachPlantedViolationIsFound(t *testing.T) {
	for _, c := range slices.Concat(plantedWrites, plantedJournals, plantedLocks) {
		t.Run(c.story, func(t *testing.T) {
			s := newStory()
			c.play(s)
			found := judged(s)
			want := make(map[string]bool)
			for _, w := range c.want {
				want[w] = true
				if found[w] == 0 {
					t.Errorf("%q did not complain; these did: %v", w, found)
				}
			}
			for f := range found {
				if !want[f] {
					t.Errorf("%q complained, too", f)
				}
			}
		})
	}
}

func TestAnEmptyHistoryShowsNothing(t *testing.T) {
	if found := All(nil, Options{TTL: time.Second}); len(found) != 1 || found[0].Check != Happened {
		t.Error(found)
	}
}

// What is built on a wrong sum is wrong as well, and no news.
func TestAWrongSumIsReportedOnceAndALostWriteOnce(t *testing.T) {
	s := newStory()
	s.take(7)
	s.seal(7)
	s.write(7, "gone", s.read(7), history.Applied, false)
	s.leave(7)
	s.doc.Accounts[0] -= 5
	s.take(8)
	s.read(8)
	s.read(8)
	s.leave(8)
	for tok := range int64(10) {
		s.work(9+tok, 3)
	}
	// The last one is of the accounts at the end, which are not what the list says.
	if found := judged(s); found[TornWrite] != 2 || found[LostWrite] != 1 {
		t.Error(found)
	}
}

// Whose session is over loses its locks with it.
func TestALossIsReportedOnce(t *testing.T) {
	s := newStory()
	s.take(7)
	s.lose(7)
	s.add(s.of(7, history.Left)).Err = "lost"
	s.add(s.of(7, history.Lost)).Hold = ""
	if found := judged(s); found[Losses] != 1 {
		t.Error(found)
	}
}

// A check that nobody has seen complaining is none.
func TestEveryCheckHasItsPlantedViolation(t *testing.T) {
	planted := make(map[string]bool)
	for _, c := range slices.Concat(plantedWrites, plantedJournals, plantedLocks) {
		for _, w := range c.want {
			planted[w] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(planted)), slices.Sorted(slices.Values(Checks)); !slices.Equal(got, want) {
		t.Errorf("planted: %q\nthere are: %q", got, want)
	}
}
