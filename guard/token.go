package guard

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Token is the number that tells an earlier holder of a lock from a later one: the later one's is larger. It is at
// least 1. The zero Token is none, and every guard refuses it.
//
// A token is the modification revision of the holder's key in etcd, so it can be as large as 2^63-1. As text and in
// JSON it is a decimal string, because a JSON number goes through a float64 in many programs, which merges neighbours
// beyond 2^53.
type Token int64

// ParseToken reads a token from its only form: decimal digits without sign, leading zeros or blanks, from 1 to
// 2^63-1. Any other text gives an error that wraps [ErrNoToken].
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	// Formatting again refuses what ParseInt allows beside the canonical form: "+1", "01", "-0".
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%w in %s; it is a decimal number from 1 to 9223372036854775807", ErrNoToken, quote(s))
	}
	return Token(n), nil
}

// String returns the decimal form, also for the numbers that are no token.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// MarshalText returns the decimal form, so that JSON carries a string. What is no token gives an error that wraps
// [ErrNoToken]: a sender learns that it has none, and not the receiver. Where a field may be empty, tag it omitzero.
func (t Token) MarshalText() ([]byte, error) {
	if t <= 0 {
		return nil, fmt.Errorf("%w: %d has no text form", ErrNoToken, int64(t))
	}
	return strconv.AppendInt(nil, int64(t), 10), nil
}

// UnmarshalText reads what [ParseToken] reads. On error the token is unchanged.
func (t *Token) UnmarshalText(b []byte) error {
	n, err := ParseToken(string(b))
	if err != nil {
		return err
	}
	*t = n
	return nil
}

// UnmarshalJSON reads a JSON string as [ParseToken] does. A JSON number is refused even when it is exact, since the
// next one may have been rounded on its way; so is null. The error wraps [ErrNoToken], and the token is unchanged.
func (t *Token) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return fmt.Errorf("%w in JSON %s; a token is a JSON string, since numbers lose digits beyond 2^53", ErrNoToken, quote(string(b)))
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%w in JSON %s: %w", ErrNoToken, quote(string(b)), err)
	}
	return t.UnmarshalText([]byte(s))
}

// quote makes foreign text fit for an error: a header or body of any size must not fill a log.
func quote(s string) string {
	if len(s) > 40 {
		return strconv.Quote(s[:40]) + "..."
	}
	return strconv.Quote(s)
}
