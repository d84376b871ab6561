package fileguard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/fencedlock/fencedlock/guard"
)

// marksDir is the folder of marks, locks and unfinished files.
const marksDir = ".fencedlock"

// A mark is one line: its version, the token, the resource, and a checksum of all that.
//
//	fencedlock-mark 1 42 "account/1" 8e1b7a0c
const (
	markIntro   = "fencedlock-mark "
	markVersion = "1"
	longestMark = 4096 // the longest name, all of it escaped, takes half of it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// markName and lockName say where a resource has its mark and its lock. A name of up to 512 bytes with any character in
// it becomes one of 64 that differs from all others, also where upper and lower case are the same.
func markName(resource string) string { return baseName(resource) + ".mark" }
func lockName(resource string) string { return baseName(resource) + ".lock" }

func baseName(resource string) string {
	sum := sha256.Sum256([]byte(resource))
	return marksDir + "/" + hex.EncodeToString(sum[:])
}

func encodeMark(resource string, tok guard.Token) []byte {
	b := fmt.Appendf(nil, "%s%s %d %s ", markIntro, markVersion, int64(tok), strconv.QuoteToASCII(resource))
	return fmt.Appendf(b, "%08x\n", crc32.Checksum(b, castagnoli))
}

// decodeMark accepts exactly what encodeMark makes.
func decodeMark(resource string, b []byte) (guard.Token, error) {
	rest, ok := bytes.CutPrefix(b, []byte(markIntro))
	switch {
	case len(b) == 0:
		return 0, errors.New("it is empty")
	case len(bytes.Trim(b, "\x00")) == 0:
		return 0, errors.New("it holds nothing but NUL bytes")
	case !ok:
		return 0, fmt.Errorf("it is no mark, it begins with %.32q", b)
	}
	version, rest, _ := bytes.Cut(rest, []byte(" "))
	if string(version) != markVersion {
		return 0, fmt.Errorf("it has version %.32q, and this release knows only %s", version, markVersion)
	}
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	tok, err := guard.ParseToken(string(digits))
	if err != nil {
		return 0, fmt.Errorf("%.32q is no token", digits)
	}
	if !bytes.Equal(b, encodeMark(resource, tok)) {
		return 0, errors.New("it is cut off or changed, or another resource's")
	}
	return tok, nil
}

// MarkError says which mark cannot be read or believed, and why. The call that returns it has changed nothing: without the
// mark nobody knows whether the writer is late. [Guard.Repair] is the way out when the file is damaged for good.
type MarkError struct {
	Resource string
	Path     string // of the mark's file
	Err      error  // the reason
}

// Error names the resource, the file and the reason.
func (e *MarkError) Error() string {
	return fmt.Sprintf("fileguard: the mark of %q in %s cannot be trusted: %v; nothing was changed, see Guard.Repair", e.Resource, e.Path, e.Err)
}

// Unwrap returns the reason.
func (e *MarkError) Unwrap() error { return e.Err }
