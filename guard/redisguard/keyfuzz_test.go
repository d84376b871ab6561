package redisguard

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencedlock/fencedlock/guard"
)

// Keys of different data differ, none is a mark, and all of a resource lie in the slot of its mark.
func FuzzKeys(f *testing.F) {
	for _, s := range [][4]string{
		{"a", "", "a", "b"},
		{"a", "b", "a}:b", ""},
		{"a}", "", "a%7D", ""},
		{"{a", "x", "a", "x"},
		{"a", "#mark", "a", ""},
		{"a", "b}#mark", "a", "b"},
		{"%7B", "", "{", ""},
		{"}", "", "{}", "{}"},
		{"a", "{}b{c}", "a", "{b}}"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	g := &Guard{client: new(redis.Client)} // nothing is sent
	if err := g.opts.complete(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, resource1, name1, resource2, name2 string) {
		if guard.CheckResource(resource1) != nil || guard.CheckResource(resource2) != nil {
			return
		}
		k1, k2 := g.Key(resource1, name1), g.Key(resource2, name2)
		m1, m2 := g.mark(resource1), g.mark(resource2)
		if (k1 == k2) != (resource1 == resource2 && name1 == name2) || (m1 == m2) != (resource1 == resource2) {
			t.Errorf("%q of %q has the key %q, and %q of %q has %q", name1, resource1, k1, name2, resource2, k2)
		}
		if k1 == m1 || k1 == m2 {
			t.Errorf("%q of %q has the key of a mark, %q", name1, resource1, k1)
		}
		if tag := redisTag(k1); tag != redisTag(m1) || tag != hashTag(k1) {
			t.Errorf("%q of %q has the key %q, in another slot than its mark %q", name1, resource1, k1, m1)
		}
		if err := g.checkKeys(resource1, []string{k1}); err != nil {
			t.Error(err)
		}
		if err := g.checkKeys(resource1, []string{m1}); err == nil {
			t.Errorf("a script of %q may have the mark", resource1)
		}
		if err := g.checkKeys(resource1, []string{k2}); (err == nil) != (resource1 == resource2) {
			t.Errorf("a script of %q and the key %q of %q: %v", resource1, k2, resource2, err)
		}
		if redisTag(name1) != hashTag(name1) {
			t.Errorf("the tag of %q is %q, want %q", name1, hashTag(name1), redisTag(name1))
		}
	})
}

// redisTag is keyHashSlot of Redis's cluster.c, line by line.
func redisTag(key string) string {
	s := strings.IndexByte(key, '{')
	if s < 0 {
		return key
	}
	e := s + 1
	for e < len(key) && key[e] != '}' {
		e++
	}
	if e == len(key) || e == s+1 {
		return key
	}
	return key[s+1 : e]
}
