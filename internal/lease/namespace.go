package lease

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const maxNamespace = 512

// CheckNamespace returns nil if ns can be the prefix of all keys. A "%" begins
// the names that are no lock's.
func CheckNamespace(ns string) error {
	if !strings.HasSuffix(ns, "/") || strings.ContainsAny(ns, "%\x00") || !utf8.ValidString(ns) || len(ns) > maxNamespace {
		return fmt.Errorf("%.60q is no namespace: it must end in \"/\", hold no \"%%\" and no NUL, and be valid UTF-8 of at most %d bytes",
			ns, maxNamespace)
	}
	return nil
}
