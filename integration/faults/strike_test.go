//go:build unix

package main

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/internal/aztest"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

// isStruck writes while each blow is dealt that can be: it is a write that is hit, it is carried out, and once, and nobody
// is told that it was not.
func isStruck(t *testing.T, site *site) {
	dealt := make(map[blow]int)
	for _, x := range site.storages {
		name := x.resource
		k, err := store.Of(name)
		if err != nil {
			t.Fatal(err)
		}
		st := open(t, k, site.places, true)
		for _, b := range []blow{replyLost, comesLate, comesTwice} {
			if x.strike[b] == nil {
				continue
			}
			what := name + ", " + string(b)
			tok, d := newHolder(t, k, st)
			forget := x.strike[b]()
			o, err := write(t.Context(), k, st, tok, d, what)
			if !forget() {
				t.Errorf("%s: no write came", what)
			}
			if o != history.Applied && (o != history.Unknown || b == comesTwice) {
				t.Errorf("%s: the write is %s, %v", what, o, err)
			}
			// A late one comes on a connection of its own.
			holds := func() bool { d, err := st.Read(t.Context(), name); return err == nil && slices.Contains(d.List, what) }
			for end := time.Now().Add(5 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Errorf("%s: the write, which was %s, has not come", what, o)
					break
				}
			}
			dealt[b]++
		}
		newHolder(t, k, st) // its seal comes after all that was under way
		if journal := addsUp(t, k, st); (journal == nil) != slices.Contains([]string{"s3", "gcs", "azure"}, x.name) {
			t.Errorf("%s: the journal is %q", name, journal)
		}
	}
	if want := map[blow]int{replyLost: 10, comesLate: 10, comesTwice: 3}; !maps.Equal(dealt, want) {
		t.Errorf("so many were dealt: %v; want %v", dealt, want)
	}
}

// keepsItsData restarts each server: what it acknowledged is there, and the mark.
func keepsItsData(t *testing.T, site *site) {
	for _, x := range site.storages {
		if x.restart == nil {
			continue
		}
		name := x.resource
		k, err := store.Of(name)
		if err != nil {
			t.Fatal(err)
		}
		st := open(t, k, site.places, true)
		tok, d := newHolder(t, k, st)
		if o, err := write(t.Context(), k, st, tok, d, "before"); o != history.Applied {
			t.Errorf("%s: the write is %s, %v", name, o, err)
		}
		if err := x.restart(); err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		st = open(t, k, site.places, true)
		d, err = st.Read(t.Context(), name)
		if err != nil || d.List[len(d.List)-1] != "before" {
			t.Errorf("%s: after a restart it holds %q, %v", name, d.List, err)
		}
		if mark, err := st.Highest(t.Context(), name); err != nil || mark != tok {
			t.Errorf("%s: after a restart the mark is %d, %v; want %d", name, mark, err, tok)
		}
	}
}

// newHolder does what a holder does before its first write.
func newHolder(t *testing.T, k store.Kind, st store.Store) (guard.Token, history.Doc) {
	t.Helper()
	mark, err := st.Highest(t.Context(), k.Resource())
	if err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	if err := st.Seal(t.Context(), k.Resource(), mark+1); err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	d, err := st.Read(t.Context(), k.Resource())
	if err != nil {
		t.Fatalf("%s: %v", k.Name, err)
	}
	return mark + 1, d
}

func write(ctx context.Context, k store.Kind, st store.Store, tok guard.Token, d history.Doc, op string) (history.Outcome, error) {
	c := history.Change{From: 1, To: 3, Amount: amount}
	next, _ := d.Apply(op, c)
	err := st.Write(ctx, k.Resource(), tok, store.Write{Doc: next, Change: c, Inside: func() {}})
	o, _ := store.OutcomeOf(err)
	return o, err
}

// The guard of an object store tries again by itself, so that nothing shows there whether a late upload has ever come.
func TestALateUploadComesWhenItIsForgotten(t *testing.T) {
	got := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	defer server.Close()
	s := newStage(t.Context(), t.Output())
	err := s.do(func() {
		p := httpfault.New(s, server.Listener.Addr().String())
		put := func(path string) error {
			c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+p.Address+path, http.NoBody)
			if err != nil {
				s.Fatal(err)
			}
			answer, err := c.Do(r)
			if err != nil {
				return err
			}
			return answer.Body.Close()
		}
		forget := uploads(s, p, aztest.Upload)[comesLate]()
		if put("/late") == nil || put("/other") != nil {
			t.Error("want the first upload to be cut off, and the second to pass")
		}
		if path := <-got; path != "/other" {
			t.Errorf("%s has come", path)
		}
		if !forget() || len(got) != 1 || <-got != "/late" {
			t.Error("the late upload has not come")
		}
		if uploads(s, p, aztest.Upload)[comesLate]()() {
			t.Error("none came, and it is said that one did")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
