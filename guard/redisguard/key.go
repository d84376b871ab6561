package redisguard

import (
	"fmt"
	"strings"
)

// escape makes a resource's name fit for a hash tag, which ends at the first closing brace; no two names become one.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// Key returns a key for data of resource, which [Guard.Run] may be given: it lies in the same slot of a cluster as the
// resource's mark. Different resources and different names have different keys, and none of them is a mark. The empty
// name is the key of the value that Get, Set and Del work on.
//
// The key is the prefix, the resource in braces and, after a colon, the name: "fencedlock:{account/1}:log". The mark is at
// the key of the empty name with "#mark" behind it: "fencedlock:{account/1}#mark". In the
// resource %, { and } are written as %25, %7B and %7D. Keys of your own making lie in the slot, too, when their hash tag
// is the resource as it is written here, or when they are just that.
func (g *Guard) Key(resource, name string) string {
	if g.made() != nil {
		return "" // which is no key that Run takes
	}
	key := g.opts.Prefix + "{" + escape.Replace(resource) + "}"
	if name != "" {
		key += ":" + name
	}
	return key
}

// markSuffix makes the mark's key of the value's.
const markSuffix = "#mark"

// mark is the key of the resource's mark.
func (g *Guard) mark(resource string) string { return g.Key(resource, "") + markSuffix }

// checkKeys refuses keys that do not lie in the resource's slot, on a single server as well: otherwise a program would
// find out when it moves to a cluster.
func (g *Guard) checkKeys(resource string, keys []string) error {
	tag, value := escape.Replace(resource), g.Key(resource, "")
	for _, k := range keys {
		if hashTag(k) != tag {
			return fmt.Errorf("redisguard: Run on %q: the key %q need not lie in the same slot of a cluster as the resource's mark; "+
				"use Key(resource, name), or a key with the hash tag {%s}", resource, k, tag)
		}
		if k == value+markSuffix {
			return fmt.Errorf("redisguard: Run on %q: the key %q is the guard's own", resource, k)
		}
	}
	return nil
}

// hashTag returns the part of a key that decides about its slot: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
func hashTag(key string) string {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			return tag
		}
	}
	return key
}
