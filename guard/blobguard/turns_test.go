package blobguard

import (
	"fmt"
	"testing"
)

// What a guard remembers is bounded, and what is in use is never forgotten.
func TestTurnsRememberSoManyKeysAndNoMore(t *testing.T) {
	var ts turns
	give, err := ts.take(t.Context(), "in use")
	if err != nil {
		t.Fatal(err)
	}
	read := func(key string, seen known) {
		v := ts.visit(key)
		v.learn(seen)
		v.leave()
	}
	ts.learn("in use", known{version: "v", mark: 5})
	for i := range 3 * remembered {
		give, err := ts.take(t.Context(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			ts.learn(fmt.Sprint(i), known{version: "v", mark: 5})
		}
		give()
		read(fmt.Sprint("read ", i), known{version: "v", mark: 5})
	}
	if n := len(ts.keys); n != remembered+1 || ts.idle.Len() != remembered {
		t.Errorf("%d keys are remembered, %d of them idle; want %d", n, ts.idle.Len(), remembered)
	}
	if k, ok := ts.recall("in use"); !ok || k.mark != 5 {
		t.Errorf("the key in use is %v, %v", k, ok)
	}
	if _, ok := ts.recall("1"); ok {
		t.Error("the oldest is remembered")
	}
	if _, ok := ts.recall(fmt.Sprint(3*remembered - 1)); !ok {
		t.Error("the latest is not remembered")
	}
	late := ts.visit("in use") // a reader that comes late
	ts.learn("in use", known{version: "v2", mark: 5})
	give()
	late.learn(known{version: "v", mark: 5})
	late.leave()
	if k, _ := ts.recall("in use"); k.version != "v2" {
		t.Errorf("the version went back to %q", k.version)
	}
	late = ts.visit("in use")
	ts.forget("in use")
	late.learn(known{version: "v2", mark: 5})
	if _, ok := ts.recall("in use"); ok || !late.purged() {
		t.Error("it is not forgotten")
	}
	late.leave()
	if len(ts.keys) != remembered-1 {
		t.Errorf("%d keys are remembered", len(ts.keys))
	}
}
