package lock

import (
	"fmt"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
)

// A name's "/" would nest its queue in another's, "%" ends the name, and "#"
// tells a permit from its semaphore.
var (
	keyEscapes      = strings.NewReplacer("%", "%25", "/", "%2F", "#", "%23")
	resourceEscapes = strings.NewReplacer("%", "%25", "#", "%23")
)

// queueOf returns the prefix of all keys of one lock. "%/" occurs in no escaped
// name, so neither names nor nested namespaces ever share a queue.
func queueOf(namespace, name string) string {
	return namespace + keyEscapes.Replace(name) + "%/"
}

// resourceOf returns what guards call the resource of the lock called name. What it is that was given, a name or a prefix, is
// for the error.
func resourceOf(what, name string) (string, error) {
	if err := guard.CheckResource(name); err != nil {
		return "", fmt.Errorf("lock: bad %s: %w", what, err)
	}
	resource := resourceEscapes.Replace(name)
	if err := guard.CheckResource(resource); err != nil {
		return "", fmt.Errorf("lock: bad %s: with each %%, # escaped in three bytes: %w", what, err)
	}
	return resource, nil
}
