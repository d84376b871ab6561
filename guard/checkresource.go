package guard

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxResource is the longest name in bytes; it fits the index of every database and the key of every object store.
const maxResource = 512

// CheckResource returns nil if name can name a resource: 1 to 512 bytes of valid UTF-8 without the NUL character.
// Names are compared byte by byte: upper and lower case, trailing blanks and the normal forms of Unicode all differ.
// Guards call it before any I/O, locks for their own names.
func CheckResource(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("guard: the resource has an empty name")
	case len(name) > maxResource:
		return fmt.Errorf("guard: the resource name %s has %d bytes; at most %d are allowed", quote(name), len(name), maxResource)
	case !utf8.ValidString(name):
		return fmt.Errorf("guard: the resource name %s is not valid UTF-8", quote(name))
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("guard: the resource name %s contains a NUL character", quote(name))
	}
	return nil
}
