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
	ts.learn("in use", known{"v", 5})
	for i := range 3 * remembered {
		give, err := ts.take(t.Context(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			ts.learn(fmt.Sprint(i), known{"v", 5})
		}
		give()
		ts.learn(fmt.Sprint("read ", i), known{"v", 5})
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
	give()
	ts.learn("in use", known{"old", 4}) // a reader that comes late
	if k, _ := ts.recall("in use"); k.mark != 5 {
		t.Errorf("the mark went back to %d", k.mark)
	}
	ts.forget("in use")
	if _, ok := ts.recall("in use"); ok {
		t.Error("it is not forgotten")
	}
}
