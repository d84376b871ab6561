package etcdguard_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
)

// Empty, cut off or foreign state that is taken for none lets everybody in:
// https://github.com/caddyserver/caddy/issues/4448, https://github.com/caddyserver/certmagic/issues/232
func TestMarkThatCannotBeReadIsNeverTakenForNone(t *testing.T) {
	p := prefix(t)
	const good = `{"v":1,"token":"7","last":["A-B"]}`
	for _, value := range []string{
		"", "\x00\x00\x00", "7", `"7"`, "null", "{}", "[]", good[:len(good)-1], good + good, good + "x",
		`{"v":2,"token":"7"}`, `{"v":0,"token":"7"}`, `{"token":"7"}`, `{"v":"1","token":"7"}`, `{"v":1}`, `{"v":1,"token":7}`,
		`{"v":1,"token":"0"}`, `{"v":1,"token":"-7"}`, `{"v":1,"token":""}`, `{"v":1,"token":null}`, `{"v":1,"token":"07"}`,
		`{"v":1,"token":"9223372036854775808"}`, `{"v":1,"token":"7","more":1}`, `{"v":1,"token":"7","writes":-1}`, `{"v":1,"token":"7","last":"A-B"}`,
		`{"v":1,"token":"7","last":["AB"]}`, `{"v":1,"token":"7","last":["-B"]}`, `{"v":1,"token":"7","last":["A-"]}`,
		`{"v":1,"token":"7","last":["A-B","A-C"]}`, `{"v":1,"token":"7","last":["1-1","2-2","3-3","4-4","5-5","6-6","7-7","8-8","9-9"]}`,
	} {
		g, known := newGuard(t, direct, p), newGuard(t, direct, p)
		key := p + "marks/r"
		if _, err := direct.Put(t.Context(), key, good); err != nil {
			t.Fatal(err)
		}
		mustDo(t, known, "r", 7)
		if _, err := direct.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		high, errHighest := g.Highest(t.Context(), "r")
		if high != 0 {
			t.Errorf("%.40q: Highest = %d", value, int64(high))
		}
		errKnown := known.Do(t.Context(), "r", 9, clientv3.OpPut(p+"data", "x"))
		if !errors.Is(errKnown, guard.ErrUnknown) || !strings.Contains(errKnown.Error(), `"`+key+`"`) {
			t.Errorf("%.40q: Do that had seen another = %v; want ErrUnknown, since the client may have sent twice, and the key", value, errKnown)
		}
		for op, err := range map[string]error{
			"Highest": errHighest,
			"Seal":    g.Seal(t.Context(), "r", 9),
			"Do":      g.Do(t.Context(), "r", 9, clientv3.OpPut(p+"data", "x")),
		} {
			if err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), `"`+key+`"`) {
				t.Errorf("%.40q: %s = %v; want an error that names the key", value, op, err)
			}
		}
		expect(t, p+"data", "", 0)
		if got := get(t, key).value; got != value {
			t.Errorf("%.40q has become %q", value, got)
		}
	}
	// The repair that the error advises.
	if _, err := direct.Put(t.Context(), p+"marks/r", `{"v":1,"token":"8"}`); err != nil {
		t.Fatal(err)
	}
	g := newGuard(t, direct, p)
	if err := g.Do(t.Context(), "r", 7); !errors.Is(err, guard.ErrStale) {
		t.Errorf("after the repair: %v; want ErrStale", err)
	}
	mustDo(t, g, "r", 8)
}

// Two releases will write the same marks.
func TestMarkHasTheFormThatIsDocumented(t *testing.T) {
	p := prefix(t)
	guards := make([]*etcdguard.Guard, 10)
	for i := range guards {
		guards[i] = newGuard(t, direct, p)
		mustDo(t, guards[i], "r", 1<<53+1)
	}
	const write = `"[A-Z2-7]{13}-[A-Z2-7]{13}"`
	form := regexp.MustCompile(`^\{"v":1,"token":"9007199254740993","writes":\d+,"last":\[(` + write + `(?:,` + write + `){7})\]\}$`)
	latest := func() []string {
		value := get(t, p+"marks/r").value
		found := form.FindStringSubmatch(value)
		if found == nil {
			t.Fatalf("the mark is %s", value)
		}
		return strings.Split(found[1], ",")
	}
	before := latest()
	mustDo(t, guards[9], "r", 1<<53+1)
	after := latest()
	if before[0] == after[0] || before[0][:14] != after[0][:14] || !slices.Equal(before[1:], after[1:]) {
		t.Errorf("from %v to %v; want another write of the same guard", before, after)
	}
	mustDo(t, guards[7], "r", 1<<53+1)
	if got := latest(); got[0][:14] != before[2][:14] || got[1] != after[0] || got[2] != before[1] || !slices.Equal(got[3:], before[3:]) {
		t.Errorf("from %v to %v; want the guard's place to be the first", after, got)
	}
}

func TestEachPrefixHasMarksOfItsOwn(t *testing.T) {
	p := prefix(t)
	for i, c := range []struct{ prefix, resource, key string }{
		{"a/", "r", "a/r"}, {"a/b/", "r", "a/b/r"}, {"a/", "b/r", "a/b%2Fr"}, {"b/", "r", "b/r"}, {"b/", "50%/2F", "b/50%25%2F2F"},
	} {
		g := newGuardWith(t, direct, etcdguard.Options{Prefix: p + c.prefix})
		expectMark(t, g, c.resource, 0)
		tok := guard.Token(9 - i) // lower each time
		mustDo(t, g, c.resource, tok)
		expectMark(t, g, c.resource, tok)
		if get(t, p+c.key).version == 0 {
			t.Errorf("the mark of %q under %q is not the key %q", c.resource, c.prefix, c.key)
		}
	}
	if _, err := etcdguard.New(direct, nil); err != nil {
		t.Fatal(fmt.Errorf("defaults: %w", err))
	}
}
