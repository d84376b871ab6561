package fencing

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
)

const hex = "0123456789ABCDEF"

// plain tells the bytes that stand for themselves: the unreserved characters of RFC 3986, section 2.3, and "/". A comma
// is not among them, so that a proxy that joins two values makes no third one of them.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~/", c) >= 0
}

// Escape writes a name with every byte that is not plain as "%" and two upper-case hexadecimal digits.
func Escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// Unescape reads what Escape writes for the name of a resource, and nothing else: a name has one form, so two programs
// cannot take one field for two resources.
func Unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if plain(c) {
			b.WriteByte(c)
			continue
		}
		if c != '%' {
			return "", fmt.Errorf("the resource's name is not percent-encoded: it holds %q as it is", c)
		}
		if len(s) < i+3 {
			return "", errors.New("the resource's name ends within a percent-encoded byte")
		}
		high, low := strings.IndexByte(hex, s[i+1]), strings.IndexByte(hex, s[i+2])
		if high < 0 || low < 0 {
			return "", fmt.Errorf("the resource's name holds %q, which is no percent-encoded byte in upper-case hexadecimal digits", s[i:i+3])
		}
		if c = byte(high<<4 | low); plain(c) {
			return "", fmt.Errorf("the resource's name holds %q, and %q has to stand for itself", s[i:i+3], c)
		}
		b.WriteByte(c)
		i += 2
	}
	name := b.String()
	if err := guard.CheckResource(name); err != nil {
		return "", err
	}
	return name, nil
}
