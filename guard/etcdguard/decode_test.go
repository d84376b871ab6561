package etcdguard

import (
	"reflect"
	"strings"
	"testing"
)

// Whoever may write the key of a mark may leave anything there. What is taken for a mark is one, and says the same when it
// is written again.
func FuzzDecodeMark(f *testing.F) {
	good, err := mark{}.next(42, last{"CZ5RZ3HKR6N2A", "7Q2BV4TNXWPOA"}).next(43, last{"A", "B"}).encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{good, good[1:], good + good, "", "null", "7", "{}", `{"v":1}`, `{"v":2,"token":"7"}`, `{"v":1,"token":7}`, `{"v":1,"token":"0"}`,
		`{"v":1,"token":"-7"}`, `{"v":1,"token":"9223372036854775808"}`, `{"v":1,"token":"7","token":null}`, `{"v":1,"token":"7","last":["A-B","A-C"]}`,
		`{"v":1,"token":"7","last":["A-B-C"]}`, `{"v":1,"token":"7","last":["` + "\xff" + `-B"]}`, `{"v":1,"token":"7","last":[null]}`, `{"v":1,"token":"7","last":["-B"]}`,
		`{"v":1,"token":"7","last":["A-"]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		m, err := decode(value)
		if err != nil {
			if !reflect.DeepEqual(m, mark{}) || err.Error() == "" {
				t.Errorf("%q gives %+v and %v", value, m, err)
			}
			return
		}
		if m.token <= 0 {
			t.Errorf("%q is taken for the mark %d", value, m.token)
		}
		seen := make(map[string]bool)
		for _, l := range m.last {
			if l.instance == "" || l.number == "" || seen[l.instance] || strings.Contains(l.instance, "-") {
				t.Errorf("%q has the writes %v", value, m.last)
			}
			seen[l.instance] = true
		}
		again := m
		for i := range remembered + 1 {
			text, err := again.encode()
			if err != nil {
				t.Fatalf("%q cannot be written again: %v", value, err)
			}
			back, err := decode([]byte(text))
			if err != nil || !reflect.DeepEqual(back, again) {
				t.Fatalf("%q, after %d more writes, is written as %q and read as %+v, %v", value, i, text, back, err)
			}
			again = again.next(m.token, last{strings.Repeat("I", i+1), "n"})
		}
	})
}
