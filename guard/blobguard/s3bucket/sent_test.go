package s3bucket

import (
	"io"
	"strings"
	"testing"
)

// Of what was sent to its end once, nobody knows whether it was applied, whatever came after it; and a pass that signs sends
// nothing.
func TestBodyThatWasSentToItsEndOnceIsWhole(t *testing.T) {
	all, part := int64(10), int64(5)
	for _, c := range []struct {
		signing, sending []int64 // how far the passes go
		whole            bool
	}{
		{[]int64{all}, []int64{part}, false},
		{[]int64{all}, []int64{all}, true},
		{[]int64{all}, []int64{all, part}, true},
		{nil, []int64{all, part}, true},
		{nil, []int64{part, all, 0}, true},
		{nil, []int64{part, part}, false},
		{[]int64{all}, nil, false},
	} {
		s := &sent{r: strings.NewReader(strings.Repeat("x", int(all))), size: all}
		pass := func(n int64) {
			if _, err := s.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, s, n); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range c.signing {
			pass(n)
		}
		for _, n := range c.sending {
			s.begin() // also when the SDK itself begins again
			pass(n)
		}
		if begun, whole, failed := s.end(); whole != c.whole || begun != (len(c.sending) > 0) || failed != nil {
			t.Errorf("%+v: begun %v, whole %v, %v", c, begun, whole, failed)
		}
	}
}
