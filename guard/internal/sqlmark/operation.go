package sqlmark

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// longestOperation is that of a resource's name.
const longestOperation = 512

// CheckOperation returns nil if op can name an operation: 1 to 512 bytes of valid UTF-8 without the NUL character, like
// the name of a resource.
func CheckOperation(op string) error {
	switch {
	case op == "":
		return errors.New("the operation has an empty name")
	case len(op) > longestOperation:
		return fmt.Errorf("the operation's name %.40q... has %d bytes; at most %d are allowed", op, len(op), longestOperation)
	case !utf8.ValidString(op):
		return fmt.Errorf("the operation's name %.40q is not valid UTF-8", op)
	case strings.ContainsRune(op, 0):
		return fmt.Errorf("the operation's name %.40q contains a NUL character", op)
	}
	return nil
}
